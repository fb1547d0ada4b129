# The program alone: a static binary in an empty image, run by a user without
# a name, without a shell or anything else to break into.
#
#   docker build -t windrow .
#   docker run -e WINDROW_REDIS_URL=redis://host:6379/0 -p 8080:8080 \
#     -v ./keys.yaml:/keys.yaml:ro -e WINDROW_API_KEYS_FILE=/keys.yaml windrow

FROM golang:1.26 AS build
WORKDIR /src
# Modules change more rarely than code: their layer is built first and kept.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Without cgo there is nothing to load at run time. The version and the commit
# that the program reports come from .git.
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/windrow ./cmd/windrow

FROM scratch
# Roots of trust, for Redis over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/windrow /windrow
# A number, so that an orchestrator can see that it isn't root.
USER 65532:65532
# The default is loopback, which nobody outside the container could reach. On
# any other address the server wants to know who may call it: WINDROW_API_KEYS_FILE,
# WINDROW_JWT_ISSUER, or WINDROW_AUTH=none.
ENV WINDROW_ADDR=0.0.0.0:8080
EXPOSE 8080
# There is no curl in here: the program asks itself.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 \
    CMD ["/windrow", "health", "--url", "http://127.0.0.1:8080/readyz"]
ENTRYPOINT ["/windrow"]
CMD ["serve"]
