module github.com/windrow-run/windrow

go 1.26
