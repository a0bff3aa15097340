package nats

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// readAck reads the answer of a stream to a message.
func readAck(data []byte) (*jetstream.PubAck, error) {
	if len(data) == 0 {
		return &jetstream.PubAck{}, nil
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.PubAck
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("it is not an acknowledgement: %w", err)
	}
	if answer.Error != nil {
		return nil, answer.Error
	}
	return &answer.PubAck, nil
}
