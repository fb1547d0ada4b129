// Package contract has the types of Windrow's HTTP contract, generated from openapi.yaml at the root of the module.
//
// A client's own JSON is a [JSON]: the bytes as they came. They stay as they are only in the hands of an encoder that is
// told not to escape for HTML; json.Marshal rewrites "<", ">" and "&" inside them, which [Encode] does not.
package contract

//go:generate go tool -modfile=oapi-codegen.mod oapi-codegen -config oapi-codegen.yaml ../../openapi.yaml
