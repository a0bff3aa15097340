// Drives Chromium for the tests. Each line of stdin is a request, each line of stdout is a reply:
//
//   {"id": 1, "page": "p1", "method": "open", "args": [{"colorScheme": "dark"}]}      a new browser context with a page
//   {"id": 2, "page": "p2", "method": "open", "args": [{}, "p1"]}                     a new tab in the context of p1
//   {"id": 3, "page": "p1", "method": "goto", "args": ["http://localhost:80/"]}       a method of playwright's Page
//   {"id": 4, "page": "p1", "on": "text=Deny", "method": "click", "args": []}         a method of the Locator of "on"
//
// Arguments: node driver.mjs NODE_MODULES CHROMIUM LIMIT_MS
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, executablePath, limit] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const axe = readFileSync(`${modules}/axe-core/axe.min.js`, "utf8");
const browser = await chromium.launch({ executablePath });
const pages = new Map();

async function open(name, options, other) {
	const context = other ? pages.get(other).context() : await browser.newContext(options);
	context.setDefaultTimeout(Number(limit));
	const page = await context.newPage();
	page.problems = [];
	page.on("pageerror", (error) => page.problems.push(error.message));
	page.on("console", (message) => { if (["error", "warning"].includes(message.type())) page.problems.push(message.text()); });
	pages.set(name, page);
}

const own = {
	problems: (page) => page.problems,
	press: (page, keys) => page.keyboard.press(keys),
	closeContext: (page) => page.context().close(),
	async axe(page) {
		await page.evaluate(axe); // unlike a script in the page, the browser's policy allows this
		const { violations } = await page.evaluate(() => window.axe.run(document));
		return violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 200)}: ${n.failureSummary}`));
	},
};

async function answer({ page: name, on, method, args }) {
	if (method === "open") return open(name, ...args);
	const page = pages.get(name);
	if (!on && method in own) return own[method](page, ...args);
	const target = on ? page.locator(on) : page;
	const result = await target[method](...args);
	if (typeof result?.status === "function") return result.status(); // of a response
	return Buffer.isBuffer(result) ? undefined : result;
}

for await (const line of createInterface({ input: process.stdin })) {
	const request = JSON.parse(line);
	answer(request).then((result = null) => ({ result }), (error) => ({ error: String(error?.message ?? error) }))
		.then((reply) => console.log(JSON.stringify({ id: request.id, ...reply })));
}
await browser.close();
