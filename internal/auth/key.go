package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
)

// The parts of an API key; rand.Text has five bits a character.
const (
	keyPrefix      = "wdr_"
	keyIDLength    = 12
	secretLength   = 52
	checksumLength = 8
)

// NewKey makes a random API key. The id is public; the key is told once and never stored.
func NewKey() (key, id string) {
	id = rand.Text()[:keyIDLength]
	secret := rand.Text() + rand.Text()
	body := keyPrefix + id + "_" + secret[:secretLength]
	return body + checksum(body), id
}

// checksum finds a mistyped key. It protects nothing.
func checksum(body string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body))) }

// keyID is the public id of a key; false: the text is no key, or was mistyped.
func keyID(key string) (id string, ok bool) {
	const length = len(keyPrefix) + keyIDLength + 1 + secretLength + checksumLength
	if len(key) != length || !strings.HasPrefix(key, keyPrefix) || key[len(keyPrefix)+keyIDLength] != '_' {
		return "", false
	}
	body := key[:length-checksumLength]
	return key[len(keyPrefix):][:keyIDLength], checksum(body) == key[length-checksumLength:]
}

const hashPrefix = "sha256:"

// HashKey is what is kept of a key.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// parseHash reads what HashKey wrote.
func parseHash(text string) (sum [sha256.Size]byte, ok bool) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if !ok || len(digits) != 2*len(sum) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return sum, err == nil
}
