// SPDX-License-Identifier: Apache-2.0
import type { KubeClient } from "@patchbay/kube";
import { createFakeClock } from "@patchbay/os/testing";
import { afterEach, expect, test } from "vitest";
import { readPage } from "./page.ts";
import { startPanel, type Panel, type PanelDeps } from "./server.ts";

const clock = createFakeClock();
const images = (): Promise<readonly string[]> => Promise.resolve(["debian:12"]);
let panel: Panel | undefined;
afterEach(() => panel?.close());

interface Told {
  readonly kind: string;
  readonly of: string;
  readonly namespace?: string | null;
}

/** An API server that allows or forbids lists of all namespaces. */
function clientOf(mayList: boolean): PanelDeps["client"] & { readonly seen: unknown[] } {
  const seen: unknown[] = [];
  const client: Pick<KubeClient, "exchange" | "reflect" | "openStream" | "server"> = {
    server: "https://test",
    exchange: (request) => {
      seen.push(request);
      const text = JSON.stringify({ status: { allowed: mayList } });
      return Promise.resolve({ status: 201, text, warnings: ["old field"] });
    },
    reflect: (type, wanted) => {
      seen.push([type.resource, wanted?.namespace]);
      const subscribe = (tell: (told: object) => void): object => {
        tell({ kind: "listed", objects: [] });
        return { unsubscribe: () => undefined };
      };
      return { subscribe } as never; // nothing else of it is used
    },
    openStream: () => Promise.reject(new Error("not here")),
  };
  return { ...client, seen };
}

async function open(client: PanelDeps["client"], onlyIn?: string): Promise<Record<string, string>> {
  const scope = { namespace: "blue", ...(onlyIn !== undefined && { onlyIn }) };
  let count = 0;
  const random = (size: number): Uint8Array => new Uint8Array(size).fill((count += 1));
  const deps = { client, files: new Map(), scope, random, clock, images };
  panel = await startPanel(deps, 0);
  const origin = `http://127.0.0.1:${String(panel.port)}`;
  const token = panel.createLink().split("#token=")[1];
  const body = JSON.stringify({ token, browser: "p".repeat(32) });
  const response = await fetch(`${origin}/session`, { method: "POST", headers: { origin }, body });
  const session = (await response.json()) as { readonly key: string };
  expect(session).toMatchObject({ server: "https://test", namespace: "blue" });
  return { origin, "x-panel-key": session.key };
}

async function firstLines(
  headers: Record<string, string>,
  count: number,
): Promise<readonly Told[]> {
  const ended = new AbortController();
  const response = await fetch(`${headers["origin"] ?? ""}/watch`, {
    headers,
    signal: ended.signal,
  });
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    if (text.split("\n").length > count) break;
  }
  ended.abort();
  return text
    .trimEnd()
    .split("\n")
    .slice(0, count)
    .map((line) => JSON.parse(line) as Told);
}

test.each([
  { name: "in all namespaces if the user may", mayList: true, onlyIn: undefined, want: undefined },
  {
    name: "in the kubeconfig's namespace otherwise",
    mayList: false,
    onlyIn: undefined,
    want: "blue",
  },
  { name: "in the requested namespace", mayList: true, onlyIn: "red", want: "red" },
])("watches three kinds in one response, $name", async ({ mayList, onlyIn, want }) => {
  const client = clientOf(mayList);
  const headers = await open(client, onlyIn);
  const told = await firstLines(headers, 6);
  expect(told.map(({ of, kind }) => `${of} ${kind}`)).toEqual([
    "vms scope",
    "vms listed",
    "vmis scope",
    "vmis listed",
    "networks scope",
    "networks listed",
  ]);
  expect(told[0]?.namespace).toBe(want ?? null);
  expect(client.seen).toContainEqual(["virtualmachines", want]);
});

test.each([true, false])(
  "reports to the page whether the API server responds: %s",
  async (isAnswering) => {
    const client = clientOf(true);
    const ask: KubeClient["exchange"] = (request) =>
      request.path === "/version" && !isAnswering
        ? Promise.reject(new Error("no answer in time"))
        : client.exchange(request);
    const told = await firstLines(await open({ ...client, exchange: ask }), 7);
    expect(told.at(-1)).toEqual({ kind: "pulse", isAnswering });
  },
);

test("sends the machine's images to the page", async () => {
  const { origin = "", ...headers } = await open(clientOf(true));
  const response = await fetch(`${origin}/images`, { headers });
  expect(await response.json()).toEqual({ names: ["debian:12"] });
});

test("returns the API server's status, text and warnings", async () => {
  const client = clientOf(true);
  const headers = await open(client);
  const path = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachines/a?dryRun=All";
  const url = `${headers["origin"] ?? ""}${path}`;
  const type = { "content-type": "application/json-patch+json" };
  const response = await fetch(url, {
    method: "PATCH",
    headers: { ...headers, ...type },
    body: "[]",
  });
  expect(await response.json()).toMatchObject({ status: 201, warnings: ["old field"] });
  expect(client.seen.at(-1)).toMatchObject({
    method: "PATCH",
    query: { dryRun: "All" },
    body: [],
    contentType: "application/json-patch+json",
  });
});

test("reports how to build a missing page", async () => {
  const files = { readText: () => Promise.resolve(undefined) };
  await expect(readPage(files, "/nowhere/")).rejects.toMatchObject({
    code: "PANEL_NOT_BUILT",
    message: expect.stringContaining("npm run build") as string,
  });
});

test("the page has the nonce of its response", async () => {
  const files = { readText: () => Promise.resolve("<meta content={{nonce}}>") };
  const page = await readPage(files, "/here/");
  expect(page.get("/")?.render("abc")).toBe("<meta content=abc>");
  expect(page.get("/panel.js")?.type).toContain("text/javascript");
});
