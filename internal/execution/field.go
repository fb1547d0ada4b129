package execution

// Field names one field of a control as stores keep it. The values are short so that a stored control stays small.
type Field string

// The fields. ID is not among them: the key of a control names it.
const (
	FieldDeployment   Field = "d"
	FieldRevision     Field = "r"
	FieldOwner        Field = "o"
	FieldLabels       Field = "lb"
	FieldSchema       Field = "z"
	FieldStatus       Field = "s"
	FieldVersion      Field = "v"
	FieldFence        Field = "f"
	FieldAttempt      Field = "a"
	FieldLostLeases   Field = "l"
	FieldRetries      Field = "n"
	FieldClaims       Field = "c"
	FieldBudgetLost   Field = "bl"
	FieldBudgetRetry  Field = "bn"
	FieldBudgetClaims Field = "bc"
	FieldPriority     Field = "i"
	FieldTraceParent  Field = "tp"
	FieldTraceState   Field = "ts"
	FieldWorker       Field = "w"
	FieldToken        Field = "k"
	FieldLeaseUntil   Field = "e"
	FieldAvailableAt  Field = "t"
	FieldQueueUntil   Field = "jq"
	FieldDeadline     Field = "j"
	FieldCanceledAt   Field = "x"
	FieldWaitSequence Field = "q"
	FieldWaitUntil    Field = "h"
	FieldProgress     Field = "p"
	FieldOperation    Field = "y"
	FieldLogEpoch     Field = "g"
	FieldWatchedUntil Field = "m"
	FieldCreatedAt    Field = "b"
	FieldUpdatedAt    Field = "u"
)

// numberFields and textFields list the fields in the order in which records are written.
func numberFields() []Field {
	return []Field{FieldSchema, FieldVersion, FieldFence, FieldAttempt, FieldLostLeases, FieldRetries, FieldClaims,
		FieldBudgetLost, FieldBudgetRetry, FieldBudgetClaims, FieldPriority, FieldLeaseUntil, FieldAvailableAt, FieldQueueUntil, FieldDeadline, FieldCanceledAt,
		FieldWaitSequence, FieldWaitUntil, FieldProgress, FieldWatchedUntil, FieldCreatedAt, FieldUpdatedAt}
}

func textFields() []Field {
	return []Field{FieldDeployment, FieldRevision, FieldOwner, FieldLabels, FieldTraceParent, FieldTraceState, FieldWorker, FieldToken,
		FieldOperation, FieldLogEpoch}
}

// number points at the integer that the field names; nil where it names none.
func (c *Control) number(f Field) *int64 {
	switch f {
	case FieldSchema:
		return &c.Schema
	case FieldVersion:
		return &c.Version
	case FieldFence:
		return &c.Fence
	case FieldAttempt:
		return &c.Attempt
	case FieldLostLeases:
		return &c.LostLeases
	case FieldRetries:
		return &c.Retries
	case FieldClaims:
		return &c.Claims
	case FieldBudgetLost:
		return &c.Budgets.LostLeases
	case FieldBudgetRetry:
		return &c.Budgets.Retries
	case FieldBudgetClaims:
		return &c.Budgets.Claims
	case FieldPriority:
		return &c.Priority
	}
	return c.moment(f)
}

// moment points at the time, or the number that goes with one, that the field names.
func (c *Control) moment(f Field) *int64 {
	switch f {
	case FieldLeaseUntil:
		return &c.LeaseUntil
	case FieldAvailableAt:
		return &c.AvailableAt
	case FieldQueueUntil:
		return &c.QueueUntil
	case FieldDeadline:
		return &c.Deadline
	case FieldCanceledAt:
		return &c.CanceledAt
	case FieldWaitSequence:
		return &c.WaitSequence
	case FieldWaitUntil:
		return &c.WaitUntil
	case FieldProgress:
		return &c.ProgressSequence
	case FieldWatchedUntil:
		return &c.WatchedUntil
	case FieldCreatedAt:
		return &c.CreatedAt
	case FieldUpdatedAt:
		return &c.UpdatedAt
	}
	return nil
}

// text points at the string that the field names; nil where it names none.
func (c *Control) text(f Field) *string {
	switch f {
	case FieldDeployment:
		return &c.Deployment
	case FieldRevision:
		return &c.Revision
	case FieldOwner:
		return &c.Owner
	case FieldLabels:
		return (*string)(&c.Labels)
	case FieldTraceParent:
		return &c.Trace.Parent
	case FieldTraceState:
		return &c.Trace.State
	case FieldWorker:
		return &c.Worker
	case FieldToken:
		return &c.Token
	case FieldOperation:
		return &c.Operation
	case FieldLogEpoch:
		return &c.LogEpoch
	}
	return nil
}
