package cli_test

const (
	historyPath = "GET /v1/executions/e1/history"
	past        = `{"execution_id":"e1","status":"failed","attempt":9,"sequence":40,"omitted":31,"entries":[` +
		`{"at":"2026-01-02T03:04:05.678Z","cause":"submitted","status":"queued","attempt":0,"actor":{"kind":"client","name":"key:A"},"code":null,"times":1},` +
		`{"at":"2026-01-02T03:05:00.000Z","cause":"checkpointed","status":"running","attempt":9,"actor":{"kind":"worker","name":null},"code":null,"times":3},` +
		`{"at":"2026-01-02T03:05:01.000Z","cause":"failed","status":"failed","attempt":9,"actor":{"kind":"system","name":null},"code":"lease_lost","times":1}]}`
	pastTable = "AT                        STATUS   ATTEMPT  CAUSE                   BY\n" +
		"2026-01-02T03:04:05.678Z  queued   0        submitted               client key:A\n" +
		"(31 omitted)                                                        \n" +
		"2026-01-02T03:05:00.000Z  running  9        checkpointed (3 times)  worker\n" +
		"2026-01-02T03:05:01.000Z  failed   9        failed: lease_lost      system\n"
)
