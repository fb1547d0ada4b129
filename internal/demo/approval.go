package demo

import "github.com/windrow-run/windrow/api/durable"

type approvalInput struct {
	Question string `json:"question,omitempty" jsonschema:"description=What to ask,default=May this go on?,maxLength=1000"`
}

type decision struct {
	Approved bool   `json:"approved" jsonschema:"description=Whether it may go on"`
	Note     string `json:"note,omitempty" jsonschema:"description=Why,maxLength=2000"`
}

type approvalResult struct {
	Question string `json:"question"`
	decision
}

// defineApproval asks a person, and completes with the decision.
func defineApproval(p Params) (durable.Deployment, error) {
	return durable.Define("approval", p.Revision, approve, nil)
}

func approve(c durable.Context, in approvalInput) (approvalResult, error) {
	if in.Question == "" {
		in.Question = "May this go on?"
	}
	answer, answered, err := durable.Answer[decision](c)
	if err != nil {
		return approvalResult{}, err
	}
	if !answered {
		wait := durable.Wait{Kind: "approval", Message: in.Question}
		return approvalResult{}, durable.Suspend[decision](c, nil, wait)
	}
	return approvalResult{Question: in.Question, decision: answer}, nil
}
