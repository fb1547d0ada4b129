// Package httpapi is the HTTP floor: it reads requests, hands them to the runtime, and writes answers by the contract in
// openapi.yaml. It knows no store.
package httpapi
