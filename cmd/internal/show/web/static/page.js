// Everything here adds to pages that are complete without it.

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const units = [["day", 86400], ["hour", 3600], ["minute", 60]];

function showTimes(root) {
	for (const time of root.querySelectorAll("time")) {
		const seconds = (new Date(time.dateTime) - Date.now()) / 1000;
		const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
		time.title ||= time.textContent;
		if (Math.abs(seconds) < 7 * 86400) {
			time.textContent = Math.abs(seconds) < 10 ? "now" : relative.format(Math.trunc(seconds / size), unit);
		} else {
			time.textContent = time.title;
		}
	}
}
showTimes(document);
setInterval(() => showTimes(document), 10_000);

// Live Records. The status is announced at most every five seconds.
const maxRows = 200;
const rows = document.getElementById("rows");
const pause = document.getElementById("pause");
if (rows && pause) {
	const status = document.getElementById("status");
	let last = rows.dataset.last, fresh = 0, said = 0, stream;
	const say = () => {
		if (fresh > 0 && Date.now() - said >= 5000) {
			status.textContent = fresh === 1 ? "1 new event" : `${fresh} new events`;
			[fresh, said] = [0, Date.now()];
		}
	};
	setInterval(say, 1000);
	const listen = () => {
		const query = new URLSearchParams(location.search);
		query.set("after", last);
		stream = new EventSource(`/events/stream?${query}`);
		stream.onopen = () => { if (!fresh) status.textContent = "Live"; };
		stream.onerror = () => { status.textContent = "The daemon does not answer. This page tries again."; };
		stream.onmessage = (message) => {
			last = message.lastEventId;
			const parsed = document.createElement("template");
			parsed.innerHTML = message.data; // made by the templates of the daemon, which escape
			const row = parsed.content.firstElementChild;
			row.classList.add("fresh");
			showTimes(row);
			rows.prepend(row);
			while (rows.children.length > maxRows) rows.lastElementChild.remove();
			document.getElementById("none")?.remove();
			fresh++;
			say();
		};
	};
	pause.hidden = false;
	pause.addEventListener("click", () => {
		const paused = pause.getAttribute("aria-pressed") === "false";
		pause.setAttribute("aria-pressed", paused);
		status.textContent = paused ? "Paused" : "Live";
		paused ? stream.close() : listen();
	});
	document.addEventListener("visibilitychange", () => { // a browser has few connections for each host
		if (pause.getAttribute("aria-pressed") === "false") document.hidden ? stream.close() : listen();
	});
	listen();
}

// The key that approvals need. Unlike a cookie, no other port of localhost gets it.
function key() {
	let text = localStorage.getItem("key");
	if (!text) {
		text = Array.from(crypto.getRandomValues(new Uint8Array(32)), (b) => b.toString(16).padStart(2, "0")).join("");
		localStorage.setItem("key", text);
	}
	return text;
}

function fillKeys(root) {
	for (const input of root.querySelectorAll("input[name=key]")) input.value = key();
}

fillKeys(document);

// The inbox. A request that a person is about to answer stays in its place.
const inbox = document.getElementById("inbox");
if (inbox) {
	const response = await fetch("/approvals/code", { method: "POST", body: new URLSearchParams({ key: key() }) });
	const code = response.ok ? await response.text() : "";
	document.getElementById("code").textContent = code;
	document.getElementById("ask").hidden = document.getElementById("confirm").hidden = code === "";

	const notify = document.getElementById("notify");
	notify.hidden = !("Notification" in window) || Notification.permission !== "default";
	notify.addEventListener("click", async () => { notify.hidden = (await Notification.requestPermission()) !== "default"; });

	const title = document.title;
	const news = document.getElementById("news");
	const show = async (ids) => {
		const known = Array.from(inbox.children, (li) => li.id);
		const fresh = ids.filter((id) => !known.includes(id));
		const ended = known.filter((id) => !ids.includes(id));
		for (const id of ended) {
			const li = document.getElementById(id);
			if (!li.contains(document.activeElement)) li.remove();
		}
		if (fresh.length + ended.length > 0) {
			const page = new DOMParser().parseFromString(await (await fetch("/approvals")).text(), "text/html");
			fillKeys(page);
			showTimes(page);
			const answered = document.getElementById("answered");
			if (!answered.contains(document.activeElement)) answered.replaceWith(document.adoptNode(page.getElementById("answered")));
			if (ended.length > 0) news.textContent = "A call does not wait any more: see its answer below.";
			for (const id of fresh.reverse()) {
				const li = page.getElementById(id);
				if (!li) continue;
				inbox.prepend(document.adoptNode(li));
				news.textContent = `A call waits for you: ${li.querySelector("h2").textContent}`;
				if (document.hidden && "Notification" in window && Notification.permission === "granted") {
					new Notification("Grapnel: a call waits for you", { body: li.querySelector("h2").textContent, tag: id }).onclick = () => window.focus();
				}
			}
		}
		document.getElementById("nothing").hidden = inbox.children.length > 0;
		document.title = ids.length > 0 ? `(${ids.length}) ${title}` : title;
	};
	const lost = "The daemon does not answer. This page tries again.";
	const stream = new EventSource("/approvals/stream");
	stream.onerror = () => { news.textContent = lost; };
	stream.onopen = () => { if (news.textContent === lost) news.textContent = ""; };
	stream.onmessage = (message) => show(message.data.split(" ").filter(Boolean).map((id) => `r${id}`));
}
