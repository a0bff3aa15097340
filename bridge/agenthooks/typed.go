package agenthooks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A Context is the input of an interceptor. Only the members of its point are set. Members of
// variable type are raw JSON.
type Context struct {
	Spec      string    `json:"spec"`
	Point     string    `json:"interception_point"`
	Timestamp time.Time `json:"timestamp"`
	Sequence  int64     `json:"sequence"`
	Agent     struct {
		ID        string `json:"id"`
		Framework string `json:"framework"`
		Version   string `json:"version"`
	} `json:"agent"`
	Session struct {
		ID string `json:"id"`
	} `json:"session"`
	Target json.RawMessage `json:"target"` // the value that a transform changes

	AgentInit *struct {
		ToolsRegistered []string `json:"tools_registered"`
	} `json:"agent_init"`
	Input *struct {
		Content json.RawMessage `json:"content"`
		Role    string          `json:"role"`
	} `json:"input"`
	Model *struct {
		ID string `json:"id"`
	} `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Response *struct {
		Content      json.RawMessage `json:"content"`
		ToolCalls    []ToolCall      `json:"tool_calls"`
		FinishReason string          `json:"finish_reason"`
	} `json:"response"`
	ToolCall   *ToolCall `json:"tool_call"`
	ToolResult *struct {
		Value   json.RawMessage `json:"value"`
		IsError bool            `json:"is_error"`
	} `json:"tool_result"`
	Output *struct {
		Content json.RawMessage `json:"content"`
	} `json:"output"`
	Summary *struct {
		Reason string `json:"reason"`
	} `json:"summary"`
	Extensions map[string]json.RawMessage `json:"extensions"`
}

// A ToolCall is a call that the model requests, or that is about to run.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// Typed converts a function with Go types to an [Interceptor]'s Judge. The zero Verdict is an
// allow.
func Typed(judge func(ctx context.Context, c *Context) (Verdict, error)) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
		var c Context
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, fmt.Errorf("cannot read the context: %w", err)
		}
		v, err := judge(ctx, &c)
		if err != nil {
			return nil, err
		}
		defaults(&v.Decision, Allow)
		return v.JSON(), nil
	}
}
