package runtime

import (
	"strings"
	"testing"
	"time"

	"github.com/windrow-run/windrow/internal/execution"
	"github.com/windrow-run/windrow/internal/handler"
	"github.com/windrow-run/windrow/internal/store/memory"
)

// New refuses what can't work, and says what it is.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	negative := int64(-1)
	tests := map[string]struct {
		change func(p *Params, d *handler.Deployment)
		want   string
	}{
		"no store":          {func(p *Params, _ *handler.Deployment) { p.Store = nil }, "no store"},
		"no JSON check":     {func(p *Params, _ *handler.Deployment) { p.Compact = nil }, "check of JSON"},
		"no compiler":       {func(p *Params, _ *handler.Deployment) { p.CompileSchema = nil }, "compiler of schemas"},
		"long worker":       {func(p *Params, _ *handler.Deployment) { p.Worker = strings.Repeat("w", 33) }, "worker"},
		"empty name":        {func(_ *Params, d *handler.Deployment) { d.Name = "" }, "does not match"},
		"name with a slash": {func(_ *Params, d *handler.Deployment) { d.Name = "a/b" }, "does not match"},
		"name with a break": {func(_ *Params, d *handler.Deployment) { d.Name = "a\n" }, "does not match"},
		"long name":         {func(_ *Params, d *handler.Deployment) { d.Name = strings.Repeat("a", 65) }, "does not match"},
		"name of a route":   {func(_ *Params, d *handler.Deployment) { d.Name = "metrics" }, "route"},
		"empty revision":    {func(_ *Params, d *handler.Deployment) { d.Revision = "" }, "revision"},
		"no handler":        {func(_ *Params, d *handler.Deployment) { d.Handler = nil }, "no handler"},
		"negative slots":    {func(_ *Params, d *handler.Deployment) { d.Options.Slots = -1 }, "slots"},
		"bad budgets":       {func(_ *Params, d *handler.Deployment) { d.Options.Budgets = execution.Budgets{Retries: 1} }, "lost leases"},
		"negative ceiling":  {func(_ *Params, d *handler.Deployment) { d.Options.MaxNonterminal = &negative }, "unfinished"},
		"retry range":       {func(_ *Params, d *handler.Deployment) { d.Options.RetryDelay, d.Options.RetryMaxDelay = 2, 1 }, "retry delays"},
		"lease of a margin": {func(p *Params, d *handler.Deployment) {
			p.Settings.CommitMargin, d.Options.Lease = time.Second, 2*time.Second
		}, "commit margins"},
		"tiny lease":         {func(_ *Params, d *handler.Deployment) { d.Options.Lease = 5 * time.Millisecond }, "commit margin"},
		"slow heartbeat":     {func(p *Params, _ *handler.Deployment) { p.Settings.Heartbeat = 29 * time.Second }, "heartbeat"},
		"negative interval":  {func(p *Params, _ *handler.Deployment) { p.Settings.PollInterval = -1 }, "poll interval"},
		"negative payload":   {func(p *Params, _ *handler.Deployment) { p.Settings.MaxPayload = -1 }, "payload"},
		"negative owned":     {func(p *Params, _ *handler.Deployment) { p.Settings.MaxOwned = -1 }, "of an owner"},
		"negative ceilings":  {func(p *Params, _ *handler.Deployment) { p.Settings.MaxNonterminal = &negative }, "unfinished"},
		"retry settings":     {func(p *Params, _ *handler.Deployment) { p.Settings.RetryDelay, p.Settings.RetryMaxDelay = 2, 1 }, "retry"},
		"backoff settings":   {func(p *Params, _ *handler.Deployment) { p.Settings.BackoffMin, p.Settings.BackoffMax = 2, 1 }, "backoff"},
		"chunk over history": {func(p *Params, _ *handler.Deployment) { p.Settings.HistoryBytes = 10 }, "chunk"},
		"endless history":    {func(p *Params, _ *handler.Deployment) { p.Settings.HistoryChunks = 10_001 }, "history"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(complete)
			p := Params{Store: memory.New(memory.Config{}), Compact: compact, CompileSchema: compile}
			test.change(&p, &d)
			p.Deployments = []handler.Deployment{d}
			if _, err := New(p); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one about %q", err, test.want)
			}
		})
	}
}

// A process serves one revision of a deployment.
func TestNewRefusesTwice(t *testing.T) {
	t.Parallel()
	a, b := deploy(complete), deploy(complete)
	b.Revision = "r2"
	_, err := New(Params{Store: memory.New(memory.Config{}), Compact: compact, CompileSchema: compile, Deployments: []handler.Deployment{a, b}})
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Fatalf("error %v", err)
	}
}

// Defaults are those of the design, and what a deployment says goes before them.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s := Settings{}.WithDefaults()
	if err := s.validate(); err != nil {
		t.Fatal(err)
	}
	d := newDeployment(deploy(complete), s)
	if d.lease != 30*time.Second || d.margin != 1500*time.Millisecond || d.heartbeat != 10*time.Second || d.exchange != 3*time.Second {
		t.Fatalf("lease %s, margin %s, heartbeat %s, exchange %s", d.lease, d.margin, d.heartbeat, d.exchange)
	}
	if d.maxNonterminal != 1000 || d.budgets != execution.DefaultBudgets() || d.retryDelay != time.Second || d.retryMaxDelay != time.Minute {
		t.Fatalf("ceiling %d, budgets %+v, retries %s to %s", d.maxNonterminal, d.budgets, d.retryDelay, d.retryMaxDelay)
	}
	short := deploy(complete)
	short.Options.Lease = 3 * time.Second
	d = newDeployment(short, s)
	if d.margin != 300*time.Millisecond || d.heartbeat != time.Second || d.exchange != 900*time.Millisecond {
		t.Fatalf("margin %s, heartbeat %s, exchange %s", d.margin, d.heartbeat, d.exchange)
	}
	if s := (Settings{ShutdownGrace: -1}).WithDefaults(); s.ShutdownGrace != 0 {
		t.Fatalf("grace %s, want none", s.ShutdownGrace)
	}
}

// A ceiling is shared by the partitions, and can't be kept where one of them would have no share.
func TestSharesOfACeiling(t *testing.T) {
	t.Parallel()
	for ceiling, fits := range map[int64]bool{0: true, 3: false, 4: true} {
		all := []*deployment{{Deployment: handler.Deployment{Name: "story"}, maxNonterminal: ceiling}}
		if err := checkShares(all, 4); (err == nil) != fits {
			t.Errorf("ceiling %d over 4 partitions: %v", ceiling, err)
		}
	}
}
