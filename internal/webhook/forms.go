package webhook

import (
	"net/url"
	"strings"
)

// A notice for each service. The limits are from the documentation of the services, in characters; the
// code counts bytes, which are more.

// FormOf returns the name of the body that the service at a URL needs, if it is a known service; otherwise "".
func FormOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case host == "hooks.slack.com":
		return BodySlack
	case host == "ntfy.sh":
		return BodyNtfy
	case strings.HasSuffix(host, ".logic.azure.com"), strings.HasSuffix(host, ".webhook.office.com"), strings.HasSuffix(host, ".api.powerplatform.com"):
		return BodyTeams
	}
	return ""
}

type object = map[string]any

const (
	slackHeader  = 150  // text of a header block
	slackSection = 3000 // text of a section block
	slackContext = 10   // elements of a context block

	// Teams refuses messages of more than 28 KB, and some already of more than 21 KB. JSON can double
	// the length of a text.
	teamsText  = 4000
	teamsLines = 20

	// ntfy makes an attachment of a message of more than 4096 bytes, and refuses JSON of more than twice
	// that size.
	ntfyMessage = 3500
	ntfyTitle   = 250
)

// slack returns the body for an incoming webhook of Slack. In all texts, Slack reads <!channel> as a
// notification of all people, <@U1> as a mention and <URL|text> as a link, unless & < > are escaped.
// verbatim prevents links from names and addresses.
func slack(n notice) object {
	title := fit(n.title, slackHeader, slackRune)
	blocks := []object{{"type": "header", "text": object{"type": "plain_text", "text": title, "emoji": false}}}
	if n.text != "" {
		blocks = append(blocks, object{"type": "section", "text": mrkdwn(fit(n.text, slackSection, slackRune))})
	}
	if n.detail != "" {
		const fence = "```"
		blocks = append(blocks, object{"type": "section", "text": mrkdwn(fence + fit(n.detail, slackSection-2*len(fence), slackCode) + fence)})
	}
	var elements []object
	for _, fact := range n.facts[:min(len(n.facts), slackContext)] {
		elements = append(elements, mrkdwn(fact[0]+": "+fit(fact[1], slackSection/2, slackRune)))
	}
	if len(elements) > 0 {
		blocks = append(blocks, object{"type": "context", "elements": elements})
	}
	return object{"text": title, "blocks": blocks} // the text is for notifications that show no blocks
}

func mrkdwn(text string) object { return object{"type": "mrkdwn", "text": text, "verbatim": true} }

func slackRune(r rune) string {
	switch r {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	}
	return string(r)
}

// slackCode escapes a rune inside a code block, which a backtick would end.
func slackCode(r rune) string {
	if r == '`' {
		return "\u02cb"
	}
	return slackRune(r)
}

// teams returns the body for a workflow of Teams: an Adaptive Card. The texts are runs, because Teams
// reads Markdown, with links, in text blocks and facts, but not in runs.
func teams(n notice) object {
	run := func(text string, with object) object {
		with["type"], with["text"] = "TextRun", text
		return with
	}
	colour := "default"
	if n.urgent {
		colour = "attention"
	}
	lines := []object{run(fit(n.title, teamsText, nil), object{"weight": "bolder", "size": "medium", "color": colour})}
	for _, line := range strings.SplitN(fit(n.text, teamsText, nil), "\n", teamsLines) {
		if line != "" {
			lines = append(lines, run(line, object{}))
		}
	}
	if n.detail != "" {
		lines = append(lines, run(fit(n.detail, teamsText, nil), object{"fontType": "monospace"}))
	}
	for _, fact := range n.facts {
		lines = append(lines, run(fact[0]+": "+fact[1], object{"isSubtle": true}))
	}
	var body []object
	for _, line := range lines {
		body = append(body, object{"type": "RichTextBlock", "inlines": []object{line}})
	}
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body}
	return object{"type": "message", "attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card}}}
}

// ntfy returns the body for the root of an ntfy server, which reads title and message as plain text
// there. Its other way, headers at the address of the topic, has no safe form for a line break or a
// letter outside of ASCII.
func ntfy(n notice, topic string) object {
	body := object{"topic": topic, "title": fit(n.title, ntfyTitle, nil), "message": n.lines(ntfyMessage), "priority": 3}
	if n.urgent {
		body["priority"], body["tags"] = 4, []string{"no_entry"}
	}
	return body
}
