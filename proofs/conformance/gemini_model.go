package conformance

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Cases about model calls use the provider's format: {model, contents, config} and {candidates,
// usageMetadata}. Gemini CLI shows its hooks a smaller format and translates their answers
// back. No agent sends the provider's format, so the translation is here and not in the
// dialect.

// llmSettings are the settings that hooks see.
var llmSettings = []string{"temperature", "maxOutputTokens", "topP", "topK"}

// defaultModel is the model name that hooks see if the request names none.
const defaultModel = "gemini-3.5-flash"

// llmRequest returns a request as hooks see it: the texts and four settings.
func llmRequest(provider map[string]any) map[string]any {
	messages := []any{}
	for _, content := range list(provider["contents"]) {
		role, text := "user", ""
		if str, is := content.(string); is {
			text = str
		} else if entry, is := entryOf(content); is {
			if entry["role"] == "model" || entry["role"] == "system" {
				role = entry["role"].(string)
			}
			for _, part := range list(entry["parts"]) {
				str, _ := textOf(part)
				text += str
			}
			if text == "" {
				continue
			}
		} else {
			continue
		}
		messages = append(messages, map[string]any{"role": role, "content": text})
	}
	model := provider["model"]
	if model == nil || model == "" {
		model = defaultModel
	}
	config, _ := provider["config"].(map[string]any)
	return map[string]any{"model": model, "messages": messages, "config": members(config, llmSettings...)}
}

// providerRequest applies the hooks' changes to a request.
func providerRequest(base, hookRequest map[string]any) map[string]any {
	request := maps.Clone(base)
	if request["model"] == nil {
		request["model"] = ""
	}
	if hookRequest["model"] != nil {
		request["model"] = hookRequest["model"]
	}
	if messages, is := hookRequest["messages"].([]any); is {
		request["contents"] = contents(list(base["contents"]), messages)
	}
	if settings, is := hookRequest["config"].(map[string]any); is {
		config, _ := base["config"].(map[string]any)
		config = maps.Clone(config)
		for _, name := range llmSettings {
			delete(config, name) // a setting that the hook omits is removed
		}
		maps.Copy(config, members(settings, llmSettings...))
		request["config"] = config
	}
	return request
}

// contents writes the hooks' texts back into the entries that the hooks saw, in order. Parts
// that are not text stay, after the text. Further messages go to the end.
func contents(base, messages []any) []any {
	now := []any{}
	next := func() (message map[string]any, ok bool) {
		if len(messages) == 0 {
			return nil, false
		}
		message, _ = messages[0].(map[string]any)
		messages = messages[1:]
		return message, true
	}
	entry := func(m map[string]any) map[string]any {
		role := map[string]any{"parts": []any{map[string]any{"text": jsString(m, "content")}}}
		if value, is := m["role"]; is {
			role["role"] = value
		}
		return role
	}
	for _, content := range base {
		if text, is := content.(string); is {
			m, ok := next()
			if !ok {
				m = map[string]any{"role": "user", "content": text}
			}
			now = append(now, entry(m))
			continue
		}
		was, is := entryOf(content)
		if !is {
			now = append(now, map[string]any{"role": "user", "parts": []any{content}})
			continue
		}
		isText := func(part any) bool { _, is := textOf(part); return is }
		parts := list(was["parts"])
		if !slices.ContainsFunc(parts, isText) {
			now = append(now, was)
			continue
		}
		m, ok := next()
		if !ok {
			now = append(now, was)
			continue
		}
		others := slices.DeleteFunc(slices.Clone(parts), isText)
		updated := maps.Clone(was)
		maps.Copy(updated, entry(m))
		updated["parts"] = append(updated["parts"].([]any), others...)
		now = append(now, updated)
	}
	for {
		m, ok := next()
		if !ok {
			return now
		}
		now = append(now, entry(m))
	}
}

// entryOf returns an entry of the contents, if it has a role and parts.
func entryOf(content any) (map[string]any, bool) {
	entry, _ := content.(map[string]any)
	_, role := entry["role"]
	_, parts := entry["parts"]
	return entry, role && parts
}

func textOf(part any) (string, bool) {
	members, _ := part.(map[string]any)
	text, is := members["text"].(string)
	return text, is
}

// members returns the named members that the object has.
func members(of map[string]any, names ...string) map[string]any {
	there := map[string]any{}
	for _, name := range names {
		if value, is := of[name]; is {
			there[name] = value
		}
	}
	return there
}

// jsString returns a member as text, converted the way JavaScript does it.
func jsString(of map[string]any, name string) string {
	value, is := of[name]
	if !is {
		return "undefined"
	}
	var text func(any) string
	text = func(value any) string {
		switch value := value.(type) {
		case string:
			return value
		case nil:
			return "null"
		case map[string]any:
			return "[object Object]"
		case []any:
			texts := make([]string, len(value))
			for i, element := range value {
				if element != nil {
					texts[i] = text(element)
				}
			}
			return strings.Join(texts, ",")
		case json.Number:
			return value.String()
		default:
			return string(rawjson.Must(value))
		}
	}
	return text(value)
}

// llmResponse returns a response as hooks see it: without function calls.
func llmResponse(provider map[string]any) map[string]any {
	response := map[string]any{}
	candidates := []any{}
	for i, candidate := range list(provider["candidates"]) {
		c, _ := candidate.(map[string]any)
		content, _ := c["content"].(map[string]any)
		texts, shown := []any{}, ""
		for _, part := range list(content["parts"]) {
			if text, is := textOf(part); is {
				texts = append(texts, text)
				if part.(map[string]any)["thought"] != true {
					shown += text
				}
			}
		}
		if i == 0 && len(list(content["parts"])) > 0 {
			response["text"] = shown
		}
		seen := members(c, "finishReason", "index")
		seen["content"] = map[string]any{"role": "model", "parts": texts}
		if ratings, is := c["safetyRatings"].([]any); is {
			seen["safetyRatings"] = ratingsOf(ratings)
		}
		candidates = append(candidates, seen)
	}
	response["candidates"] = candidates
	if usage, is := provider["usageMetadata"].(map[string]any); is {
		response["usageMetadata"] = members(usage, "promptTokenCount", "candidatesTokenCount", "totalTokenCount")
	}
	return response
}

func ratingsOf(ratings []any) []any {
	seen := []any{}
	for _, rating := range ratings {
		r, _ := rating.(map[string]any)
		of := map[string]any{}
		for _, name := range []string{"category", "probability"} {
			of[name] = ""
			if r[name] != nil {
				of[name] = jsString(r, name)
			}
		}
		seen = append(seen, of)
	}
	return seen
}

// providerResponse returns a hook's response in the provider's format.
func providerResponse(hookResponse map[string]any) map[string]any {
	response := members(hookResponse, "text", "usageMetadata")
	candidates := []any{}
	for _, candidate := range list(hookResponse["candidates"]) {
		c, _ := candidate.(map[string]any)
		content, _ := c["content"].(map[string]any)
		parts := []any{}
		for _, part := range list(content["parts"]) {
			parts = append(parts, map[string]any{"text": part})
		}
		made := members(c, "finishReason", "index", "safetyRatings")
		made["content"] = map[string]any{"role": "model", "parts": parts}
		candidates = append(candidates, made)
	}
	response["candidates"] = candidates
	return response
}
