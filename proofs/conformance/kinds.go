package conformance

import "context"

// A handler runs a case and compares the result with the expectation. An error means that there
// is nothing to compare.
type handler func(ctx context.Context, c *Case) ([]Diff, error)

// kinds maps each dialect and kind to its handler. A case of a kind that is not listed fails.
var kinds = []struct {
	dialect string
	kind    string
	run     handler
}{
	{"ironclaw", "dispatch", throughNames("systems/ironclaw", newIronclawNames, dispatch)},
	{"ironclaw", "registry", throughNames("systems/ironclaw", newIronclawNames, registry)},
	{"ironclaw", "bundle", throughNames("systems/ironclaw", newIronclawNames, ironClawBundle)},
	{"ironclaw", "bootstrap", throughNames("systems/ironclaw", newIronclawNames, ironClawBootstrap)},
	{"ironclaw", "file_filter", ironClawFileFilter},
	{"ironclaw", "webhook_body", webhookBody},
	{"ironclaw", "webhook_delivery", webhookDelivery},
	{"ironclaw", "builtin", builtinCase},
	{"ironclaw", "loop", loop},
	{"miniclaw", "dispatch", throughNames("systems/miniclaw", newMiniclawNames, dispatch)},
	{"miniclaw", "sequence", throughNames("systems/miniclaw", newMiniclawNames, sequence)},
	{"miniclaw", "registry", throughNames("systems/miniclaw", newMiniclawNames, registry)},
	{"miniclaw", "loop", loop},
	{"flyto", "dispatch", alsoThrough("systems/flyto", dispatch, flytoDispatchPackage)},
	{"flyto", "registry", alsoThrough("systems/flyto", registry, flytoRegistryPackage)},
	{"flyto", "loop", loop},
	{"flyto", "env", alsoThrough("systems/flyto", flytoEnv, flytoEnvPackage)},
	{"flyto", "parse", alsoThrough("systems/flyto", flytoParse, flytoParsePackage)},
	{"gemini", "dispatch", geminiDispatch},
	{"gemini", "match", geminiMatch},
	{"gemini", "plan", geminiPlan},
	{"ssrf", "url", ssrfURL},
	{"ssrf", "dns", ssrfDNS},
	{"ssrf", "header", ssrfHeader},
	{"ssrf", "header_set", ssrfHeaders},
	{"ssrf", "transport", ssrfTransport},
}

func handlerOf(dialect, kind string) handler {
	for _, k := range kinds {
		if k.dialect == dialect && k.kind == kind {
			return k.run
		}
	}
	return nil
}
