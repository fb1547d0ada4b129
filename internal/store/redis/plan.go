package redis

import (
	"github.com/windrow-run/windrow/internal/execution"
)

// packPlan adds a plan as lua/commit.lua reads it.
func (p *packer) plan(plan execution.Plan) {
	g := plan.Guard
	p.array(15).number(int64(g.Kind)).text(g.Owner.Worker).text(g.Owner.Token).number(g.Owner.Fence)
	p.number(g.Owner.Margin.Milliseconds()).text(g.Operation).number(g.Version).number(g.Sequence)
	p.text(plan.Status.Code()).flag(plan.DropProgress)
	p.array(3 * len(plan.Changes))
	for _, c := range plan.Changes {
		p.text(string(c.Field)).text(string(c.Op))
		if c.Text != "" {
			p.text(c.Text)
		} else {
			p.number(c.N)
		}
	}
	writes, erases := splitPayloads(plan)
	p.kinds(writes).kinds(erases)
	p.number(int64(len(plan.Progress))).text(plan.Note())
}

func (p *packer) kinds(payloads []execution.Payload) *packer {
	p.array(len(payloads))
	for _, w := range payloads {
		p.text(string(w.Kind))
	}
	return p
}

// splitPayloads tells what a plan writes from what it erases. A kind that it does both to ends as the last one says.
func splitPayloads(plan execution.Plan) (writes, erases []execution.Payload) {
	for _, w := range plan.Payloads {
		if w.Data == nil {
			erases = append(erases, w)
		} else {
			writes = append(writes, w)
		}
	}
	return writes, erases
}

// data are the arguments that go with a packed plan: its payloads, then its progress.
func (s *Store) data(plan execution.Plan) []any {
	writes, _ := splitPayloads(plan)
	args := make([]any, 0, len(writes)+len(plan.Progress))
	for _, w := range writes {
		data := w.Data
		if s.config.Compress && compressible(w.Kind) {
			data = compress(data)
		}
		args = append(args, data)
	}
	for _, e := range plan.Progress {
		args = append(args, e)
	}
	return args
}
