// SPDX-License-Identifier: Apache-2.0
// Agents and controllers of the last release on this version's API server, CRDs and admission: their recorded requests
// of a VM's life are accepted.
import { names } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guardStatus } from "../../../packages/control-plane/virt-api/src/admission/guards.ts";
import { VIRT_HANDLER_ACCOUNT } from "../../../packages/control-plane/virt-api/src/http/calls.ts";
import { readDefinitions } from "../../versions/crds.ts";
import { lastVersion, readRecorded } from "../../versions/recorded.ts";
import type { Request } from "../../versions/traffic.ts";
import { type Answer, type Harness, startHarness } from "./harness.ts";

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
// The recorder wrote this type.
const requests = readRecorded(lastVersion(), "requests.jsonl")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Request);

let api: Harness;
/** This server's uids, by recorded uid. */
const uids = new Map<string, string>();
/** Number of created objects by resource. */
const created = new Map<string, number>();

beforeAll(async () => {
  api = await startHarness();
  for (const definition of readDefinitions()) {
    const { code, text } = await api.post(DEFINITIONS, definition);
    if (code !== 201) throw new Error(text);
  }
});

afterAll(() => api.close());

function isRevisionTest(operation: unknown): boolean {
  return isJsonObject(operation) && operation["path"] === "/metadata/resourceVersion";
}

/** The body for this server, whose uids and revisions are others. */
function translate(body: unknown): unknown {
  const text = JSON.stringify(body).replaceAll(/uid-[a-z]+-\d+/g, (uid) => uids.get(uid) ?? uid);
  const translated: unknown = JSON.parse(text, (key, value: unknown) =>
    key === "resourceVersion" ? undefined : value,
  );
  return Array.isArray(translated)
    ? translated.filter((operation) => !isRevisionTest(operation))
    : translated;
}

/** The recorder numbers the objects of each resource. */
function noteUid(path: string, uid: string): void {
  const resource = path.split("/").at(-1) ?? "";
  const count = (created.get(resource) ?? 0) + 1;
  created.set(resource, count);
  uids.set(`uid-${resource}-${String(count)}`, uid);
}

/** The recorder's kubelet binds a pod and reports its status in one request, which only its own server allows. */
async function sendAsKubelet({ path, body }: Request): Promise<Answer> {
  const { spec, status } = body as {
    readonly spec?: { nodeName: string };
    readonly status: unknown;
  };
  if (spec !== undefined) {
    const target = { apiVersion: "v1", kind: "Node", name: spec.nodeName };
    const name = path.split("/").at(-1) ?? "";
    const binding = { apiVersion: "v1", kind: "Binding", metadata: { name }, target };
    const bound = await api.post(`${path}/binding`, binding);
    if (bound.code !== 201) return bound;
  }
  return api.patch(`${path}/status`, { status });
}

/** Updates with the object's current revision, which the user has read. */
async function sendUpdate({ path, body }: Request): Promise<Answer> {
  const { resourceVersion } = (await api.get(path)).body.metadata;
  const object = translate(body) as { readonly metadata: object }; // recorded objects have metadata
  return api.put(path, { ...object, metadata: { ...object.metadata, resourceVersion } });
}

function send(request: Request): Promise<Answer> {
  const { process, method, path, contentType, body } = request;
  if (process === "kubelet" && method === "PATCH") return sendAsKubelet(request);
  if (method === "PUT") return sendUpdate(request);
  return api.ask(method, path, {
    ...(contentType !== undefined && { type: contentType }),
    ...(body !== undefined && { body: translate(body) }),
  });
}

function isNodeStatus({ process, method, path }: Request): boolean {
  return (
    process.startsWith("virt-handler") &&
    method === "PATCH" &&
    /\/virtualmachineinstances\/[^/]+\/status$/.test(path)
  );
}

/** Why the webhook for the status refuses virt-handler's change, if it does. */
async function findAdmissionRefusals(
  { process }: Request,
  oldObject: unknown,
  object: unknown,
): Promise<readonly string[]> {
  const node = process.split(" on ")[1] ?? "node1";
  const verdict = await guardStatus(
    { findPodNode: () => Promise.resolve(undefined) },
    {
      uid: "review",
      kind: "VirtualMachineInstance",
      operation: "UPDATE",
      subresource: "status",
      namespace: "default",
      name: "vm1",
      user: {
        name: VIRT_HANDLER_ACCOUNT,
        groups: [`${names.NODE_GROUP_PREFIX}${node}`],
        extra: {},
      },
      object,
      oldObject,
    },
  );
  return verdict.allowed ? [] : [`${process}: ${JSON.stringify(verdict)}`];
}

/** Sends the request like the last release; returns the refusal, if any. */
async function replay(request: Request): Promise<readonly string[]> {
  const { method, path } = request;
  const isStatus = isNodeStatus(request);
  const object = path.replace(/\/status$/, "");
  const before = isStatus ? (await api.get(object)).body : undefined;
  const { code, text, body } = await send(request);
  if (method === "POST" && code === 201) noteUid(path, body.metadata.uid);
  const refusals = isStatus ? await findAdmissionRefusals(request, before, body) : [];
  const accepted = method === "GET" ? [200, 404] : [200, 201, 202];
  return accepted.includes(code)
    ? refusals
    : [`${request.process} ${method} ${path}: ${String(code)} ${text}`];
}

test("every request of the last release is accepted", async () => {
  const refusals: string[] = [];
  for (const request of requests.filter(({ accepted }) => accepted))
    refusals.push(...(await replay(request)));
  expect(refusals).toEqual([]);
  const writes = requests.filter(({ method }) => method !== "GET");
  expect(writes.length).toBeGreaterThan(30);
  expect(requests.filter(isNodeStatus).length).toBeGreaterThan(5);
  const { body: vmi } = await api.get(
    "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/vm1",
  );
  expect(vmi.status).toMatchObject({ phase: "Running", nodeName: "node2" });
});

test("every resource that the last release lists or watches is served", async () => {
  const lists = requests.filter(
    ({ method, path }) => method === "GET" && !/\/vm1|virt-launcher/.test(path),
  );
  expect(lists.length).toBeGreaterThan(3);
  const answers = [];
  for (const { path } of lists) answers.push({ path, code: (await api.ask("GET", path)).code });
  expect(answers).toEqual(lists.map(({ path }) => ({ path, code: 200 })));
});
