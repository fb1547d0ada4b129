package execution

// Decide is the lifecycle: what cmd does to an execution in state c at time now. It returns a plan, or an [Error]:
// CodeLeaseLost for an owned command whose sender no longer owns the execution, CodeNotWaiting and CodeWaitMoved for an
// answer, CodeInvalidTransition for the rest. A plan that changes nothing is no error.
//
// A caller that can't know the store's time passes one at which the command is not refused for its deadline, and the
// store compares again: 0 with an owned command, [Forever] with ExpireWait, and with Recover and Expire the time at which
// the store listed the execution. No stamp of the control will do,
// since the store's clock may have stepped back since.
func Decide(c Control, cmd Command, now Instant) (Plan, error) {
	switch cmd := cmd.(type) {
	case Submit:
		return decideSubmit(cmd)
	case Claim:
		return decideClaim(c, cmd)
	case Cancel:
		return decideCancel(c, cmd), nil
	case Resume:
		return decideResume(c, cmd)
	case Recover:
		return decideRecover(c, cmd, now)
	case ExpireWait:
		return decideExpireWait(c, cmd, now)
	case Expire:
		return decideExpire(c, now), nil
	case Move:
		return decideMove(c, cmd)
	case Withdraw:
		return decideWithdraw(c, cmd)
	}
	return decideOwned(c, cmd, now)
}

func decideSubmit(cmd Submit) (Plan, error) {
	if err := cmd.check(); err != nil {
		return Plan{}, err
	}
	p := Plan{Status: Queued}
	p.change(setN(FieldSchema, SchemaVersion), setN(FieldVersion, 1),
		set(FieldDeployment, cmd.Deployment), set(FieldRevision, cmd.Revision),
		setN(FieldBudgetLost, cmd.Budgets.LostLeases), setN(FieldBudgetRetry, cmd.Budgets.Retries),
		setN(FieldBudgetClaims, cmd.Budgets.Claims), stamp(FieldCreatedAt), stamp(FieldUpdatedAt))
	if cmd.Owner != "" {
		p.change(set(FieldOwner, cmd.Owner))
	}
	if cmd.Labels != "" {
		p.change(set(FieldLabels, string(cmd.Labels)))
	}
	if cmd.Trace.Parent != "" {
		p.change(set(FieldTraceParent, cmd.Trace.Parent))
	}
	if cmd.Trace.State != "" {
		p.change(set(FieldTraceState, cmd.Trace.State))
	}
	if cmd.Priority > 0 {
		p.change(setN(FieldPriority, cmd.Priority))
	}
	switch {
	case cmd.Delay > 0:
		p.change(after(FieldAvailableAt, cmd.Delay))
	case cmd.RunAt > 0:
		p.change(setN(FieldAvailableAt, cmd.RunAt))
	}
	if cmd.QueueTTL > 0 {
		p.change(after(FieldQueueUntil, cmd.QueueTTL))
	}
	if cmd.Deadline > 0 {
		p.change(setN(FieldDeadline, cmd.Deadline))
	}
	p.write(PayloadInput, cmd.Input)
	p.because(CauseSubmitted)
	p.by(cmd.Actor)
	return p, nil
}

// check refuses options that can't be meant. What depends on the time is for the caller to see to.
func (cmd Submit) check() error {
	switch {
	case cmd.Priority < 0 || cmd.Priority > MaxPriority:
		return InvalidOption("priority", "must be from 0 to %d", MaxPriority)
	case cmd.Delay < 0 || cmd.Delay > MaxDelay:
		return InvalidOption("delay", "must be from 0 to %d seconds", int64(MaxDelay.Seconds()))
	case cmd.RunAt < 0 || cmd.RunAt > MaxInteger:
		return InvalidOption("run_at", "is no time that can be kept")
	case cmd.QueueTTL < 0 || cmd.QueueTTL > MaxDelay:
		return InvalidOption("queue_ttl", "must be from 0 to %d seconds", int64(MaxDelay.Seconds()))
	case cmd.Deadline < 0 || cmd.Deadline > MaxInteger:
		return InvalidOption("deadline", "is no time that can be kept")
	case len(cmd.Trace.Parent) > traceParentLength || len(cmd.Trace.State) > MaxTraceState:
		return InvalidOption("trace", "is too long")
	case cmd.Delay > 0 && cmd.RunAt > 0:
		return InvalidOption("delay", "must not be given together with run_at")
	}
	return nil
}

func decideClaim(c Control, cmd Claim) (Plan, error) {
	if c.Status != Queued {
		return Plan{}, Errorf(CodeInvalidTransition, "a %s execution can't be claimed", c.Status)
	}
	p := transition(Running)
	p.change(reset(FieldAvailableAt), Change{Field: FieldFence, Op: OpFence}, add(FieldAttempt, 1), add(FieldClaims, 1),
		set(FieldWorker, cmd.Worker), set(FieldToken, cmd.Token), after(FieldLeaseUntil, cmd.Lease))
	p.because(CauseClaimed)
	return p, nil
}

func decideCancel(c Control, cmd Cancel) Plan {
	if c.Status.Terminal() || c.cancelPending() {
		return Plan{Status: c.Status}
	}
	p := transition(Running)
	p.because(CauseCancelRequested)
	if c.Status != Running {
		p = cancel(c.Status, CauseCanceled)
	}
	p.by(cmd.Actor)
	p.change(stamp(FieldCanceledAt))
	if cmd.Reason != "" {
		p.write(PayloadReason, []byte(clip(cmd.Reason, 2000)))
	}
	return p
}

func decideResume(c Control, cmd Resume) (Plan, error) {
	if err := checkWait(c, cmd.Sequence); err != nil {
		return Plan{}, err
	}
	p := requeue(Waiting, CauseResumed)
	p.by(cmd.Actor)
	p.Guard = Guard{Kind: GuardWait, Sequence: cmd.Sequence}
	p.erase(PayloadWait)
	p.write(PayloadAnswer, cmd.Answer)
	return p, nil
}

func checkWait(c Control, sequence int64) error {
	switch {
	case c.Status != Waiting:
		return Errorf(CodeNotWaiting, "the execution is %s and waits for no answer", c.Status)
	case c.WaitSequence != sequence:
		return Errorf(CodeWaitMoved, "the open wait has sequence %d, the answer is for %d", c.WaitSequence, sequence)
	}
	return nil
}

func decideExpireWait(c Control, cmd ExpireWait, now Instant) (Plan, error) {
	if err := checkWait(c, cmd.Sequence); err != nil {
		return Plan{}, err
	}
	if c.WaitUntil == 0 || now.Millis() < c.WaitUntil {
		return Plan{Status: c.Status}, nil
	}
	p := requeue(Waiting, CauseDefaulted)
	if cmd.Default == nil {
		p = fail(Waiting, CauseEnded, waitExpired())
	} else {
		p.erase(PayloadWait)
		p.write(PayloadAnswer, cmd.Default)
	}
	p.Guard = Guard{Kind: GuardWaitExpired, Sequence: cmd.Sequence}
	return p, nil
}

// Expired is the command for an execution whose expiry has passed: Expire, or ExpireWait where the wait alone is over. A wait
// that can't be read has no default answer.
func Expired(c Control, wait []byte, now Instant) Command {
	if c.Status != Waiting || c.Overdue(now) {
		return Expire{}
	}
	cmd := ExpireWait{Sequence: c.WaitSequence}
	if w, err := DecodeWait(wait); err == nil {
		cmd.Default = w.Default
	}
	return cmd
}

// decideExpire ends what is not running and whose time is over.
func decideExpire(c Control, now Instant) Plan {
	if at := c.Expiry(); at == 0 || now.Millis() < at {
		return Plan{Status: c.Status}
	}
	var p Plan
	switch {
	case c.Overdue(now):
		p = fail(c.Status, CauseEnded, DeadlineExceeded())
	case c.Status == Queued:
		p = fail(c.Status, CauseEnded, queueExpired())
	default:
		return Plan{Status: c.Status} // for ExpireWait to see to
	}
	p.Guard = Guard{Kind: GuardOverdue, Version: c.Version}
	return p
}

// decideMove and decideWithdraw depend on the phase alone: the store sees to it that the execution is of the revision meant. A
// wait that is moved is another one to who answers it, since its id is the version that clients see.
func decideMove(c Control, cmd Move) (Plan, error) {
	if err := checkIdle(c); err != nil {
		return Plan{}, err
	}
	p := transition(c.Status)
	p.change(set(FieldRevision, cmd.Revision))
	p.because(CauseMoved)
	if c.Status == Waiting {
		p.change(Change{Field: FieldWaitSequence, Op: OpSince})
		p.because(CauseWaitMoved)
	}
	p.by(cmd.Actor)
	return p, nil
}

func decideWithdraw(c Control, cmd Withdraw) (Plan, error) {
	if err := checkIdle(c); err != nil {
		return Plan{}, err
	}
	p := fail(c.Status, CauseWithdrawn, revisionUnserved(cmd.Reason))
	p.by(cmd.Actor)
	return p, nil
}

func checkIdle(c Control) error {
	if c.Status != Queued && c.Status != Waiting {
		return Errorf(CodeInvalidTransition, "a %s execution is not an operator's to move or to fail", c.Status)
	}
	return nil
}

// decideRecover takes work back from a worker that stopped renewing its lease. Cancel wins; then the budgets, each for
// its own cause.
func decideRecover(c Control, cmd Recover, now Instant) (Plan, error) {
	if c.Status != Running || c.Fence != cmd.Fence {
		return Plan{}, Errorf(CodeInvalidTransition, "the lease is not the one that ran out")
	}
	if now.Millis() < c.LeaseUntil {
		return Plan{Status: c.Status}, nil
	}
	var p Plan
	switch {
	case c.cancelPending():
		p = cancel(Running, CauseAbandoned)
	case c.Overdue(now):
		p = fail(Running, CauseEnded, DeadlineExceeded())
	case c.LostLeases+1 >= c.Budgets.LostLeases:
		p = fail(Running, CauseEnded, leaseLost(c.LostLeases+1))
	case c.Claims >= c.Budgets.Claims:
		p = fail(Running, CauseEnded, noProgress(c.Claims))
	default:
		p = requeue(Running, CauseLeaseLost)
	}
	p.change(add(FieldLostLeases, 1))
	p.Guard = Guard{Kind: GuardExpired, Owner: Ownership{Fence: cmd.Fence}, Version: c.Version}
	return p, nil
}

// transition begins a plan that is a business transition: one version, one stamp.
func transition(to Status) Plan {
	p := Plan{Status: to}
	p.change(add(FieldVersion, 1), stamp(FieldUpdatedAt))
	return p
}

// leave clears what only the old status may have.
func (p *Plan) leave(from Status) {
	switch from {
	case Running:
		p.change(reset(FieldWorker), reset(FieldToken), reset(FieldLeaseUntil))
	case Waiting:
		p.change(reset(FieldWaitSequence), reset(FieldWaitUntil))
	case Queued:
		p.change(reset(FieldAvailableAt))
	}
}

func requeue(from Status, why Cause) Plan {
	p := transition(Queued)
	p.because(why)
	p.leave(from)
	return p
}

// finish ends an execution. What only an unfinished one needs goes; input and checkpoint stay for their retention.
func finish(from, to Status) Plan {
	p := transition(to)
	p.leave(from)
	p.erase(PayloadWait, PayloadAnswer)
	switch to {
	case Completed:
		p.erase(PayloadError)
	case Failed:
		p.erase(PayloadResult)
	case Canceled:
		p.erase(PayloadError, PayloadResult)
	}
	return p
}

func cancel(from Status, why Cause) Plan {
	p := finish(from, Canceled)
	p.because(why)
	return p
}

func fail(from Status, why Cause, f Failure) Plan {
	p := finish(from, Failed)
	p.because(why)
	p.Code = historyText(f.Code)
	p.write(PayloadError, f.Encode())
	return p
}
