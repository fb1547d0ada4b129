package execution

import "strings"

// decideOwned decides the commands that only the holder of the lease may give.
func decideOwned(c Control, cmd Command, now Instant) (Plan, error) {
	owned, ok := ownedOf(cmd)
	if !ok {
		return Plan{}, Errorf(CodeInvalidTransition, "unknown command")
	}
	if err := CheckOwner(c, owned.Ownership, now); err != nil {
		return Plan{}, err
	}
	p, err := planOwned(c, cmd)
	if err != nil {
		return Plan{}, err
	}
	if err := p.report(c, owned.Progress); err != nil {
		return Plan{}, err
	}
	p.change(set(FieldOperation, OperationRecord(owned.Operation, p.Status)))
	p.Guard = Guard{Kind: GuardOwned, Owner: owned.Ownership, Operation: owned.Operation, Version: c.Version}
	return p, nil
}

func ownedOf(cmd Command) (Owned, bool) {
	switch cmd := cmd.(type) {
	case Checkpoint:
		return cmd.Owned, true
	case Report:
		return cmd.Owned, true
	case Suspend:
		return cmd.Owned, true
	case Retry:
		return cmd.Owned, true
	case Complete:
		return cmd.Owned, true
	case Fail:
		return cmd.Owned, true
	case Release:
		return cmd.Owned, true
	}
	return Owned{}, false
}

// CheckOwner returns an [Error] of CodeLeaseLost unless o holds c's lease with more than its margin left at now.
func CheckOwner(c Control, o Ownership, now Instant) error {
	if c.Status != Running || c.Worker != o.Worker || c.Token != o.Token || c.Fence != o.Fence {
		return Errorf(CodeLeaseLost, "the execution is owned by another attempt")
	}
	if now.Millis() >= c.LeaseUntil-o.Margin.Milliseconds() {
		return Errorf(CodeLeaseLost, "the lease has run out")
	}
	return nil
}

// OperationRecord is what a control keeps of the last owned operation: its token and where it led.
func OperationRecord(token string, outcome Status) string { return token + ":" + statusCode(outcome) }

// Repeated answers an owned operation that was applied before: the control as it stands, with the status that the operation
// led to, so that a repeat ends as the first try would have, whatever happened since. False: it was not the last one applied.
func (c Control) Repeated(operation string) (Control, bool) {
	token, code, _ := strings.Cut(c.Operation, ":")
	outcome, ok := statusOf(code)
	if !ok || operation == "" || token != operation {
		return Control{}, false
	}
	c.Status = outcome
	return c, true
}

// planOwned is the policy. With a cancel pending every way out of running ends as canceled; a checkpoint and a report are
// stored, and their sender learns of the cancel from the control it gets back.
func planOwned(c Control, cmd Command) (Plan, error) {
	switch cmd := cmd.(type) {
	case Checkpoint:
		return planCheckpoint(cmd), nil
	case Report:
		return transition(Running), nil
	case Fail:
		return planFail(c, cmd)
	}
	if c.cancelPending() {
		return cancel(Running, CauseStopped), nil
	}
	switch cmd := cmd.(type) {
	case Suspend:
		return planSuspend(cmd), nil
	case Retry:
		return planRetry(c, cmd), nil
	case Complete:
		p := finish(Running, Completed)
		p.because(CauseCompleted)
		p.write(PayloadResult, cmd.Result)
		return p, nil
	}
	return planRelease(c), nil
}

func planCheckpoint(cmd Checkpoint) Plan {
	p := transition(Running)
	p.because(CauseCheckpointed)
	p.change(reset(FieldClaims), after(FieldLeaseUntil, cmd.Lease))
	p.write(PayloadCheckpoint, cmd.Data)
	if cmd.Consumed {
		p.erase(PayloadAnswer)
	}
	return p
}

func planSuspend(cmd Suspend) Plan {
	p := transition(Waiting)
	p.because(CauseSuspended)
	p.leave(Running)
	p.change(reset(FieldClaims), Change{Field: FieldWaitSequence, Op: OpSince})
	if cmd.Timeout > 0 {
		p.change(after(FieldWaitUntil, cmd.Timeout))
	}
	if cmd.Checkpoint != nil {
		p.write(PayloadCheckpoint, cmd.Checkpoint)
	}
	p.write(PayloadWait, cmd.Wait)
	p.erase(PayloadAnswer)
	return p
}

func planRetry(c Control, cmd Retry) Plan {
	if c.Retries >= c.Budgets.Retries {
		return fail(Running, CauseFailed, retriesExhausted(cmd.Error))
	}
	p := requeue(Running, CauseRetried)
	p.Code = historyText(cmd.Error.Code)
	p.change(add(FieldRetries, 1), reset(FieldClaims))
	if cmd.Delay > 0 {
		p.change(after(FieldAvailableAt, cmd.Delay))
	}
	p.write(PayloadError, cmd.Error.Encode())
	return p
}

func planFail(c Control, cmd Fail) (Plan, error) {
	if cmd.DropProgress && len(cmd.Progress) > 0 {
		return Plan{}, Errorf(CodeInvalidTransition, "progress can't be dropped and added at once")
	}
	p := fail(Running, CauseFailed, cmd.Error)
	if c.cancelPending() {
		p = cancel(Running, CauseStopped)
	}
	if cmd.DropProgress {
		p.DropProgress = true
		p.change(reset(FieldProgress))
	}
	return p, nil
}

func planRelease(c Control) Plan {
	if c.Claims >= c.Budgets.Claims {
		return fail(Running, CauseFailed, noProgress(c.Claims))
	}
	return requeue(Running, CauseReleased)
}

// report numbers and renders the progress that goes with the command.
func (p *Plan) report(c Control, events []Event) error {
	for i, e := range events {
		data, err := e.Encode(c.ProgressSequence + int64(i) + 1)
		if err != nil {
			return &Error{Code: CodeInvalidInput, Message: "progress metadata is not JSON", Err: err}
		}
		p.Progress = append(p.Progress, data)
	}
	if n := int64(len(events)); n > 0 {
		p.change(add(FieldProgress, n))
	}
	return nil
}
