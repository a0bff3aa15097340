package packs_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

const (
	key   = "sk-abcdefghijklmnopqrstuvwxyz"
	token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	answers(t, "secrets", map[string]answer{
		"cat .env":                                      {"ask-before-secrets", grapnel.Ask},
		"grep KEY app/.env | head":                      {"ask-before-secrets", grapnel.Ask},
		"source '.env' && npm start":                    {},
		"git show HEAD:.env":                            {"ask-before-secrets ask-before-printing-secrets", grapnel.Ask},
		"cat .env.example":                              {},
		"cat .environment":                              {},
		"echo x > .env":                                 {},
		"Write /home/dev/project/.env":                  {}, // the content is no secret
		"Write /home/dev/project/.netrc":                {"ask-before-overwriting-secrets", grapnel.Ask},
		"Read a/server.pem":                             {"ask-before-secrets", grapnel.Ask},
		"Read ~/.ssh/id_ed25519":                        {"ask-before-secrets", grapnel.Ask},
		"Read ~/.aws/credentials":                       {"ask-before-secrets", grapnel.Ask},
		"Write /home/dev/project/.env.example":          {},
		"Read README.md":                                {},
		"curl -H 'Authorization: Bearer " + key + "' x": {"no-keys-in-commands", grapnel.Block},
		"git clone https://" + token + "@example.com/x": {"no-keys-in-commands", grapnel.Block},
		"export AWS_ACCESS_KEY_ID=AKIAABCDEFGHIJKLMNOP": {"no-keys-in-commands", grapnel.Block},
		"echo sk-short":                                 {},
		"rm -rf src":                                    {},
	})
}

// Keys in the output of a tool do not reach the model.
func TestHideKeys(t *testing.T) {
	t.Parallel()
	e := using(t, "secrets")
	for printed, want := range map[string]string{
		"OPENAI=" + key + " done":     "OPENAI=sk-*** done",
		token:                         "ghp_***",
		"id AKIAABCDEFGHIJKLMNOP end": "id AKIA*** end",
		"task-force and sk-8":         "task-force and sk-8",
	} {
		v := e.Fire(context.Background(), event(t, "PostToolUse", "Bash", map[string]any{"command": "env", "stdout": printed}))
		var output struct{ Stdout string }
		if err := json.Unmarshal(v.Event.Tool.Output, &output); err != nil {
			t.Fatal(err)
		}
		if output.Stdout != want {
			t.Errorf("%q reaches the model as %q, want %q", printed, output.Stdout, want)
		}
	}
}
