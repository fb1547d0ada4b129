package redis

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
)

// A host that can't be dialed is refused at once, in every form, and so is whatever else a dial would not show.
func TestParseURLRefusesWhatCantBeDialed(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"%zz", "%41", "h:", "h:0", "h:65536", "h:port", "h:-1", "h:+1", "a:b:c", "[::1", "::1]", "[::1]x", "[h]:x",
		"-h", "h h", "h\x00", "h\n", "hö", "h,", ",h", "h;i", "u@%zz"} {
		for _, form := range []string{"redis://u:hunter2@*", "rediss://:hunter2@*/1", "redis-sentinel://u:hunter2@*/main", "redis-sentinel://a,*/main",
			"redis+cluster://u:hunter2@*", "rediss+cluster://a:1,*"} {
			raw := strings.Replace(form, "*", host, 1)
			if to, err := parseURL(raw); err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: %+v, %v", raw, to, err)
			}
		}
	}
	for raw, reason := range map[string]string{
		"redis://a,b":                             "one host",
		"redis://u:hunter2/x@h":                   "malformed",
		"redis://u:hunter2#x@h":                   "percent-encode",
		"redis://h/0#x":                           "percent-encode",
		"redis://h/1?db=2":                        "two databases",
		"redis://h?db=1&db=1":                     "twice",
		"redis://[fe80::1%a b]":                   "a host is malformed",
		"redis://h?db=%zz":                        "parameters are malformed",
		"redis+cluster://h?db=1":                  "no databases",
		"rediss://h?skip_verify=1":                "neither true nor false",
		"unix://h/run/redis.sock":                 "by its path",
		"unix://":                                 "by its path",
		"redis-sentinel://h/main?sentinel_user=x": "none of",
	} {
		if _, err := parseURL(raw); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: error is %v, want one with %q", raw, err, reason)
		}
	}
}

// Settings complete a URL. Where both speak they must agree.
func TestSettingsCompleteTheURL(t *testing.T) {
	t.Parallel()
	two, three := 2, 3
	const odd = "p@:/?#%"
	full := Config{Username: "u", Password: odd, Database: &two, TLS: &tls.Config{ServerName: "n"}}
	for _, raw := range []string{"redis://h", "rediss://u@h/2", "rediss://u:p%40%3A%2F%3F%23%25@h?db=2&skip_verify=false"} {
		to, err := parseURL(raw)
		if err == nil {
			err = to.complete(full)
		}
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if o := to.options; o.Username != "u" || o.Password != odd || o.DB != 2 || o.TLSConfig.ServerName != "n" || o.TLSConfig.MinVersion != tls.VersionTLS12 {
			t.Errorf("%s: %+v", raw, o)
		}
	}
	for _, tc := range []struct {
		raw, field string
		c          Config
	}{
		{"redis://u:p@h", "Username", Config{Username: "v"}},
		{"redis://u:p@h", "Password", Config{Password: "q"}},
		{"redis://u@h", "Password", Config{}},
		{"redis://h", "Password", Config{Username: "u"}},
		{"redis://h/2", "Database", Config{Database: &three}},
		{"redis+cluster://h", "Database", Config{Database: &three}},
		{"redis://h", "SentinelPassword", Config{SentinelPassword: "p"}},
		{"redis-sentinel://h/m?sentinel_username=u", "SentinelPassword", Config{}},
		{"redis-sentinel://h/m?sentinel_username=u&sentinel_password=p", "SentinelUsername", Config{SentinelUsername: "v"}},
		{"rediss://h?skip_verify=false", "TLS", Config{TLS: &tls.Config{InsecureSkipVerify: true}}},
		{"unix:///s", "TLS", Config{TLS: &tls.Config{}}},
	} {
		tc.c.URL = tc.raw
		_, err := New(tc.c)
		if wrong, ok := errors.AsType[*SettingError](err); !ok || wrong.Field != tc.field {
			t.Errorf("%s: error is %v, want one of %s", tc.raw, err, tc.field)
		}
	}
}

// Whatever a URL is, it is refused or names what can be dialed, and no error repeats a part of it.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"redis://u:sesame@h:1/2?db=2", "rediss-sentinel://:p%40@[::1]:7,b/main/1?sentinel_password=x", "redis+cluster://a,b",
		"unix://u:p@/run/x?db=1", "redis://u:p@%zz", "redis://a@b@c", "rediss://h?skip_verify=true", "redis://[fe80::1%25eth0]", "redis://::% "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		to, err := parseURL(raw)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "the Redis URL can't be used: ") {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		if to.socket {
			return
		}
		for _, address := range to.options.Addrs {
			host, port, err := net.SplitHostPort(address)
			if err != nil || host == "" || port == "" || strings.ContainsAny(host, "@/?#, ") {
				t.Errorf("%q: address %q, %v", raw, address, err)
			}
		}
		client, err := connect(Config{URL: raw}.withDefaults())
		if err != nil {
			if _, ok := errors.AsType[*SettingError](err); !ok {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}
