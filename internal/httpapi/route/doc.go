// Package route has the routes of Windrow's HTTP contract for the chi router, generated from openapi.yaml at the root of
// the module: an interface with a method for each operation, and the code that reads their parameters.
package route

//go:generate go tool -modfile=../../../api/contract/oapi-codegen.mod oapi-codegen -config oapi-codegen.yaml ../../../openapi.yaml
