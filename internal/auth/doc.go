// Package auth tells who makes a request, and what they may do: by API keys, by JWTs of an issuer, and, for one stream, by
// stream tokens. It knows no routes: what it finds is a [Principal], and the HTTP floor holds requests against it.
//
// # API keys
//
// A key is wdr_<id>_<secret><checksum>: a prefix that secret scanners can look for, a public id by which it is found, 260
// random bits, and a checksum that tells a mistyped key from a revoked one. Only its SHA-256 is kept. A slow hash, as
// passwords need one, would buy nothing: nobody can try 2^260 secrets, however fast each try is, and each request would pay.
//
// # Failing closed
//
// What is missing or not understood never widens what a principal may do: an unknown scope gives nothing, a JWT without an
// owner is refused, a broken list of keys leaves the last good one in force.
package auth
