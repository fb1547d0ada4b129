package server

import (
	"net/http"
	"time"

	windrow "github.com/windrow-run/windrow"
	"github.com/windrow-run/windrow/internal/httpapi"
	"github.com/windrow-run/windrow/internal/telemetry"
)

const (
	bodyTimeout = 30 * time.Second // for a request's body to arrive
	sendTimeout = 10 * time.Second // for a viewer to take an event, before it is cut
)

// front is the HTTP floor on top of the other parts. The operators' is nil where they have no address of their own.
func front(p Parts, guard *guard) (clients, operators http.Handler, err error) {
	version, _ := telemetry.Build()
	kind, acknowledgement := "memory", ""
	if p.Config.Redis != "" {
		kind, acknowledgement = "redis", p.Config.Ack.String()
	}
	params := httpapi.Params{
		Runtime: p.Runtime, Hub: p.Hub, Logger: p.Logger, Metrics: p.Metrics, Scrape: p.Metrics.Handler(),
		Contract: windrow.OpenAPI(), Version: version, StoreKind: kind, Acknowledgement: acknowledgement,
		BodyBytes: int64(p.Config.BodyBytes), HeaderBytes: int(p.Config.HeaderBytes), JSONDepth: p.Config.JSONDepth,
		BodyTimeout: bodyTimeout, SendTimeout: sendTimeout, Reconnect: p.Config.Reconnect,
		Retention:    p.Config.TerminalTTL,
		StreamTokens: guard.streamTokens, Conditions: guard.conditions, Origins: p.Config.CORSOrigins,
		Hayhooks: p.Config.Hayhooks,
		Limits:   httpapi.Limits{Rate: p.Config.RateLimit, Burst: p.Config.RateBurst, Viewers: p.Config.MaxViewers},
	}
	if guard.bearer != nil {
		params.Auth = guard.bearer
	}
	if p.Config.AdminAddr != "" {
		params.Side = httpapi.OperatorsSide
		if operators, err = httpapi.New(params); err != nil {
			return nil, nil, err
		}
		params.Side = httpapi.ClientsSide
	}
	clients, err = httpapi.New(params)
	return clients, operators, err
}
