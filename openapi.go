// Package windrow carries the contract that the module's server keeps: openapi.yaml, as it stands beside this file. The
// program is in cmd/windrow, the public packages are in api.
package windrow

import _ "embed"

//go:embed openapi.yaml
var openAPI string

// OpenAPI returns the contract, an OpenAPI 3.1 document in YAML.
func OpenAPI() string { return openAPI }
