package archtest

// module is the path under which all packages stand.
const module = "github.com/windrow-run/windrow"

// keeper gives a dependency to the only packages that may import it, tests included.
type keeper struct {
	dependency string   // an import path, with everything below it
	only       []string // packages relative to the module, with everything below them
	reason     string
}

func keepers() []keeper {
	return []keeper{
		{"github.com/redis/go-redis", []string{"internal/store/redis", "internal/redistest", "internal/faultkit", "internal/bench"}, "another store must fit without a change elsewhere"},
		{"github.com/Shopify/toxiproxy", []string{"internal/faultkit"}, "tests take their faults from one kit"},
		{"github.com/testcontainers/testcontainers-go", []string{"internal/redistest"}, "tests take their server from one harness"},
		{"github.com/go-chi/chi", []string{"internal/httpapi", "internal/bench"}, "the router is a detail of the HTTP floor"},
		{"github.com/prometheus/client_golang", []string{"internal/telemetry", "internal/e2e"}, "metric names and labels are decided in one place"},
		{"github.com/lmittmann/tint", []string{"internal/telemetry"}, "parts log through slog and know no format"},
		{"github.com/anishathalye/porcupine", []string{"internal/store/storetest"}, "what histories are held against is decided in one place"},
		{"github.com/rs/cors", []string{"internal/httpapi"}, "who may call from a browser is decided where requests come in"},
		{"github.com/golang-jwt/jwt", []string{"internal/auth"}, "tokens are judged in one place"},
		{"github.com/MicahParks", []string{"internal/auth"}, "tokens are judged in one place"},
		{"github.com/spf13/cobra", []string{"internal/cli"}, "only programs have a command line"},
	}
}

// ban forbids a dependency to a package and all below it.
type ban struct {
	from       string // a package relative to the module
	dependency string // an import path, with everything below it
	deep       bool   // also through other packages, not only by an import of its own
	reason     string
}

func bans() []ban {
	const redis = "github.com/redis/go-redis"
	return []ban{
		{"api/durable", redis, true, "an author's handler must not compile a store"},
		{"api/durable", "net/http", true, "an author's handler knows no transport"},
		{"internal/httpapi", redis, true, "the HTTP floor works on any store"},
		{"internal/runtime", redis, true, "the runtime works on any store"},
		{"internal/runtime", "net/http", false, "the runtime serves embedders that have no HTTP"},
		{"internal/stream", redis, true, "the hub works on any store"},
		{"internal/stream", "net/http", false, "the hub hands events to any transport"},
	}
}

// floor is a level of the building. A package imports only packages on lower
// floors, and those below its own path or above it on the same floor; siblings
// on one floor never import each other.
type floor struct {
	path  string // a package relative to the module; the longest match counts
	level int
}

// floors lists every package or its parent, from the top down. A package that
// stands nowhere fails the test: a new part is given its floor on purpose.
func floors() []floor {
	return []floor{
		{"internal/e2e", 110}, // whole-system tests start the programs
		{"cmd", 105},
		{"api/windrow", 102}, // what an embedder sees: the server, and its command line
		{"internal/cli", 100},
		{"internal/bench", 95},  // measures what the server assembles
		{"internal/server", 90}, // assembles all below
		{"internal/httpapi", 80},
		{"internal/runtime", 70},
		{"internal/stream", 50},
		{"internal/store/memory", 45}, // stores stand on the contract that they fulfill
		{"internal/store/redis", 45},
		{"internal/store", 40},
		{"api/client", 35},
		{"internal/demo", 34}, // deployments as an author writes them
		{"api/durabletest", 32},
		{"api/durable", 30},
		{"api", 25},              // generated contract types
		{"internal/handler", 22}, // what authors' code and the runtime both stand on
		{"internal/config", 20},
		{"internal/auth", 16},
		{"internal/strictjson", 15},
		{"internal/sse", 15},
		{".", 12}, // the contract's text
		{"internal/schema", 18},
		{"internal/telemetry", 10},
		{"internal/reload", 10},
		{"internal/execution", 0},
		{"internal/archtest", 0},
	}
}

// vagueNames say nothing of what a package is for.
func vagueNames() []string {
	return []string{"util", "utils", "common", "helper", "helpers", "misc", "shared"}
}
