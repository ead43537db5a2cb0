// SPDX-License-Identifier: Apache-2.0
// Watches: start revision, format, and end.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

const DEFAULT = "/api/v1/namespaces/default";
const MAPS = `${DEFAULT}/configmaps`;
const PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

let api: Harness;
let count = 0;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

async function make() {
  count += 1;
  return (await api.post(MAPS, { metadata: { name: `w-${String(count)}` }, data: { a: "1" } }))
    .body;
}

describe("the start of a watch", () => {
  test.each([
    (name: string) => `/api/v1/watch/namespaces/default/configmaps/${name}`,
    (name: string) => `${MAPS}?watch=True&fieldSelector=metadata.name=${name}`,
    (name: string) => `${MAPS}?watch=1&fieldSelector=metadata.name=${name}&limit=1&pretty=true`,
  ])("%s delivers the object", async (pathOf) => {
    const { metadata } = await make();
    await using watch = await api.watch(pathOf(metadata.name));
    const [first] = await watch.first(1);
    expect([first?.type, first?.object.metadata.name]).toEqual(["ADDED", metadata.name]);
  });

  test("a watch parameter on the path of an object returns the object", async () => {
    const made = await make();
    expect((await api.get(`${MAPS}/${made.metadata.name}?watch=1`)).body).toEqual(made);
  });

  test("waits for a future revision", async () => {
    const now = Number((await make()).metadata.resourceVersion);
    await using watch = await api.watch(`${MAPS}?watch=1&resourceVersion=${String(now + 2)}`);
    await make();
    await make();
    const { metadata } = await make();
    const [first] = await watch.first(1);
    expect(first?.object.metadata.name).toBe(metadata.name);
  });

  test.each([
    { query: "resourceVersionMatch=Exact&resourceVersion=1", code: 422 },
    { query: "sendInitialEvents=true", code: 422 },
    { query: "resourceVersion=1", code: 410 },
    { query: "timeoutSeconds=soon", code: 400 },
    { query: "resourceVersion=new", code: 400 },
    { query: "fieldSelector=spec.nope=1", code: 400 },
    { query: "labelSelector=a+in+(", code: 400 },
  ])("$query: $code", async ({ query, code }) => {
    expect((await api.get(`${MAPS}?watch=1&${query}`)).code).toBe(code);
  });

  test.each(["text/plain", "application/yaml"])("%s does not stream", async (accept) => {
    expect((await api.get(`${MAPS}?watch=1`, accept)).code).toBe(406);
  });
});

describe("the end of a watch", () => {
  test("a watch ends at its timeout, with a bookmark on request", async () => {
    const { metadata } = await make();
    const query = `watch=1&timeoutSeconds=1&resourceVersion=${metadata.resourceVersion}`;
    const plain = await api.get(`${MAPS}?${query}`);
    expect([plain.code, plain.text]).toEqual([200, ""]);
    const { text } = await api.get(`${MAPS}?${query}&allowWatchBookmarks=true`, PARTIAL);
    expect(JSON.parse(text)).toMatchObject({
      type: "BOOKMARK",
      object: { kind: "PartialObjectMetadata", metadata: {} },
    });
  });
});

describe("selectors", () => {
  test("field changes move pods in and out of the selection", async () => {
    const pods = `${DEFAULT}/pods`;
    const { body: pod } = await api.post(pods, {
      metadata: { name: "p" },
      spec: { containers: [{ name: "c", image: "i:1" }] },
    });
    const from = `watch=1&resourceVersion=${pod.metadata.resourceVersion}`;
    await using onNode = await api.watch(`${pods}?${from}&fieldSelector=spec.nodeName=n`);
    await using running = await api.watch(
      `/api/v1/pods?${from}&fieldSelector=status.phase=Running`,
    );
    await api.post(`${pods}/p/binding`, { target: { kind: "Node", name: "n" } });
    const { body: started } = await api.patch(`${pods}/p/status`, { status: { phase: "Running" } });
    const { body: failed } = await api.patch(`${pods}/p/status`, { status: { phase: "Failed" } });
    const events = await running.first(2);
    expect(events.map(({ type }) => type)).toEqual(["ADDED", "DELETED"]);
    expect(events[1]?.object.status).toEqual(started.status);
    expect(events[1]?.object.metadata.resourceVersion).toBe(failed.metadata.resourceVersion);
    expect((await onNode.first(3)).map(({ type }) => type)).toEqual([
      "ADDED",
      "MODIFIED",
      "MODIFIED",
    ]);
  });
});
