// Package webhooktest has servers for tests that check messages as strictly as the real services: Slack,
// Teams, ntfy and e-mail.
package webhooktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Message is a message as its readers see it.
type Message struct {
	Topic, Title, Text string
	Active             []string // mentions and links, which can notify or mislead readers
	Header             http.Header
	Raw                string
}

// A Box collects messages. It is safe for concurrent use.
type Box struct {
	mu       sync.Mutex
	messages []Message
}

// Messages returns the messages that a server accepted.
func (b *Box) Messages() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Message{}, b.messages...)
}

func (b *Box) add(m Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, m)
}

// a refusal is a status with its text.
type refusal struct {
	status int
	text   string
}

func refuse(status int, text string) { panic(refusal{status, text}) }

// serve returns a handler that calls read with the body of each request. read can call refuse.
func (b *Box) serve(most int, large refusal, read func(r *http.Request, body []byte) Message, ok func(http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				refused, known := p.(refusal)
				if !known {
					panic(p)
				}
				http.Error(w, refused.text, refused.status)
			}
		}()
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil || r.Method != http.MethodPost:
			refuse(http.StatusMethodNotAllowed, "invalid_method")
		case len(body) > most:
			panic(large)
		}
		m := read(r, body)
		m.Header, m.Raw = r.Header, string(body)
		b.add(m)
		ok(w)
	})
}

var (
	slackActive = regexp.MustCompile(`<[^>]*>|&(?:[^agl]|a[^m]|g[^t]|l[^t])`)
	markdown    = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)|https?://\S+`)
	topic       = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)
)

type textObject struct {
	Type     string
	Text     string
	Emoji    *bool
	Verbatim bool
}

// Slack is an incoming webhook. https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
func (b *Box) Slack() http.Handler {
	return b.serve(1<<20, refusal{http.StatusRequestEntityTooLarge, "too_large"}, func(r *http.Request, body []byte) (m Message) {
		var payload struct {
			Text   string
			Blocks []struct {
				Type     string
				Text     *textObject
				Elements []textObject
			}
		}
		switch err := json.Unmarshal(body, &payload); {
		case r.Header.Get("Content-Type") != "application/json", err != nil, !utf8.Valid(body):
			refuse(http.StatusBadRequest, "invalid_payload")
		case payload.Text == "" && len(payload.Blocks) == 0:
			refuse(http.StatusBadRequest, "no_text")
		case len(payload.Text) > 40000:
			refuse(http.StatusBadRequest, "msg_too_long")
		case len(payload.Blocks) > 50:
			refuse(http.StatusBadRequest, "invalid_blocks")
		}
		m.Title = slackText(payload.Text)
		m.Active = append(m.Active, slackActive.FindAllString(payload.Text, -1)...)
		for i := range payload.Blocks {
			switch block := &payload.Blocks[i]; block.Type {
			case "header":
				m.show(block.Text, 150, true)
			case "section":
				m.show(block.Text, 3000, false)
			case "context":
				if len(block.Elements) == 0 || len(block.Elements) > 10 {
					refuse(http.StatusBadRequest, "invalid_blocks")
				}
				for j := range block.Elements {
					m.show(&block.Elements[j], 3000, false)
				}
			default:
				refuse(http.StatusBadRequest, "invalid_blocks")
			}
		}
		return m
	}, func(w http.ResponseWriter) { fmt.Fprint(w, "ok") })
}

// show adds a text as Slack shows it.
func (m *Message) show(t *textObject, most int, plain bool) {
	if t == nil || t.Text == "" || utf8.RuneCountInString(t.Text) > most || t.Type != "mrkdwn" && t.Type != "plain_text" ||
		plain && t.Type != "plain_text" || t.Type == "mrkdwn" && t.Emoji != nil || t.Type == "plain_text" && t.Verbatim {
		refuse(http.StatusBadRequest, "invalid_blocks")
	}
	m.Active = append(m.Active, slackActive.FindAllString(t.Text, -1)...)
	if t.Type == "mrkdwn" && !t.Verbatim {
		m.Active = append(m.Active, markdown.FindAllString(t.Text, -1)...)
	}
	m.Text += slackText(t.Text) + "\n"
}

func slackText(text string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
}

// Teams is the address of a workflow. https://learn.microsoft.com/connectors/teams
func (b *Box) Teams() http.Handler {
	return b.serve(21_000, refusal{http.StatusRequestEntityTooLarge, "RequestEntityTooLarge"}, func(r *http.Request, body []byte) (m Message) {
		var payload struct {
			Type        string
			Attachments []struct {
				ContentType string
				Content     struct {
					Type, Version string
					Body          []struct {
						Type, Text string
						Inlines    []struct{ Type, Text, Weight, Size, Color, FontType string }
					}
				}
			}
		}
		if err := json.Unmarshal(body, &payload); err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") || !utf8.Valid(body) {
			refuse(http.StatusBadRequest, "TriggerInputSchemaMismatch")
		}
		if payload.Type != "message" || len(payload.Attachments) != 1 || payload.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
			refuse(http.StatusBadRequest, "TriggerInputSchemaMismatch")
		}
		card := &payload.Attachments[0].Content
		if card.Type != "AdaptiveCard" || card.Version != "1.4" || len(card.Body) == 0 {
			refuse(http.StatusBadRequest, "BotInvalidAdaptiveCard")
		}
		for _, block := range card.Body {
			switch block.Type {
			case "TextBlock":
				m.Active = append(m.Active, markdown.FindAllString(block.Text, -1)...)
				m.Text += block.Text + "\n"
			case "RichTextBlock":
				for _, run := range block.Inlines {
					if run.Type != "TextRun" || run.Text == "" {
						refuse(http.StatusBadRequest, "BotInvalidAdaptiveCard")
					}
					m.Text += run.Text
				}
				m.Text += "\n"
			default:
				refuse(http.StatusBadRequest, "BotInvalidAdaptiveCard")
			}
		}
		m.Title, _, _ = strings.Cut(m.Text, "\n")
		return m
	}, func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) })
}

// Ntfy is an ntfy server. https://docs.ntfy.sh/publish, server/errors.go of github.com/binwiederhier/ntfy
func (b *Box) Ntfy() http.Handler {
	const most = 4096
	bad := func(code int, text string) {
		refuse(http.StatusBadRequest, fmt.Sprintf(`{"code":%d,"http":400,"error":"invalid request: %s"}`, code, text))
	}
	return b.serve(2*most, refusal{http.StatusRequestEntityTooLarge, `{"code":41303,"http":413,"error":"JSON body too large"}`}, func(r *http.Request, body []byte) (m Message) {
		var payload struct {
			Topic, Title, Message string
			Priority              int
			Tags                  []string
			Markdown              bool
		}
		switch err := json.Unmarshal(body, &payload); {
		case r.URL.Path != "/" || r.URL.RawQuery != "":
			bad(40009, "topic invalid")
		case err != nil:
			bad(40024, "request body must be valid JSON")
		case !topic.MatchString(payload.Topic):
			bad(40009, "topic invalid")
		case payload.Priority < 0 || payload.Priority > 5:
			bad(40007, "invalid priority parameter")
		case len(payload.Message) > most:
			refuse(http.StatusRequestEntityTooLarge, `{"code":41301,"http":413,"error":"attachment too large, or bandwidth limit reached"}`)
		case strings.ContainsAny(payload.Title, "\r\n"): // the server makes a header of it
			bad(40024, "request body must be valid JSON")
		}
		m = Message{Topic: payload.Topic, Title: payload.Title, Text: payload.Message}
		if payload.Markdown {
			m.Active = markdown.FindAllString(payload.Message, -1)
		}
		return m
	}, func(w http.ResponseWriter) { fmt.Fprint(w, `{"id":"x","event":"message"}`) })
}
