// SPDX-License-Identifier: Apache-2.0
// kubectl with this API server, compared with Kubernetes.
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { widgetDefinition } from "../harness.ts";
import { type KubectlSession, type CommandResult, startKubectlSession } from "./session.ts";

let session: KubectlSession;

beforeAll(async () => {
  session = await startKubectlSession();
  await session.api.post(
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    widgetDefinition("kubectl.test"),
  );
});

afterAll(async () => {
  await session.close();
});

async function kubectl(...args: readonly string[]): Promise<CommandResult> {
  return session.kubectl("", ...args);
}

async function apply(manifest: unknown): Promise<CommandResult> {
  return kubectl("apply", "-f", await session.write("manifest.json", manifest));
}

function widget(name: string, size: string) {
  return { apiVersion: "kubectl.test/v1", kind: "Widget", metadata: { name }, spec: { size } };
}

function pod(image: string) {
  const containers = ["a", "b"].map((name) => ({ name, image }));
  return { apiVersion: "v1", kind: "Pod", metadata: { name: "applied" }, spec: { containers } };
}

test("apply creates, configures and leaves unchanged", async () => {
  expect((await apply(widget("one", "s"))).out).toBe("widget.kubectl.test/one created\n");
  expect((await apply(widget("one", "m"))).out).toBe("widget.kubectl.test/one configured\n");
  expect((await apply(widget("one", "m"))).out).toBe("widget.kubectl.test/one unchanged\n");
});

test("apply merges containers of a pod by name without warnings", async () => {
  expect(await apply(pod("i:1"))).toMatchObject({ code: 0, err: "" });
  expect(await apply(pod("i:2"))).toEqual({ code: 0, out: "pod/applied configured\n", err: "" });
  const { out } = await kubectl(
    "get",
    "pod",
    "applied",
    "-o",
    "jsonpath={.spec.containers[*].image}",
  );
  expect(out).toBe("i:2 i:2");
});

test("rejects a misspelled field", async () => {
  const { code, err } = await apply({ ...widget("typo", "s"), spec: { sise: "s" } });
  expect([code, err]).toEqual([1, expect.stringMatching(/unknown field "(spec\.)?sise"/)]);
});

test("get shows columns, names, JSON and YAML", async () => {
  await apply(widget("shown", "s"));
  expect((await kubectl("get", "widgets", "shown")).out).toMatch(/^NAME\s+AGE\nshown\s+\d+s\n$/);
  expect((await kubectl("get", "pods", "-A", "-o", "wide")).out).toMatch(
    /^NAMESPACE\s+NAME\s+READY\s+STATUS/,
  );
  expect((await kubectl("get", "ns", "-o", "name")).out).toContain("namespace/kube-system\n");
  expect(JSON.parse((await kubectl("get", "widget", "shown", "-o", "json")).out)).toMatchObject({
    spec: { size: "s" },
  });
  expect((await kubectl("get", "widget", "shown", "-o", "yaml")).out).toContain("size: s\n");
});

test("get -w follows an object", async () => {
  await apply(widget("watched", "s"));
  const watch = session.follow("get widget watched -w -o", 'jsonpath={.spec.size}{"\\n"}');
  const lines: string[] = [];
  const exited = once(watch, "exit");
  for await (const line of createInterface(watch.stdout)) {
    lines.push(line);
    if (line === "s") {
      await kubectl("patch", "widget", "watched", "--type=merge", "-p", '{"spec":{"size":"xl"}}');
    } else {
      watch.kill();
    }
  }
  await exited;
  expect(lines).toEqual(["s", "xl"]);
});

test("wait returns on a condition and on a deletion", async () => {
  const definition = "crd/widgets.kubectl.test";
  expect((await kubectl("wait", "--for=condition=Established", definition)).code).toBe(0);
  await apply(widget("fleeting", "s"));
  const waiting = kubectl("wait", "--for=delete", "widget/fleeting", "--timeout=15s");
  await kubectl("delete", "widget", "fleeting");
  expect((await waiting).code).toBe(0);
});

test("patch, label, annotate and replace write", async () => {
  await apply(widget("written", "s"));
  const path = '[{"op":"replace","path":"/spec/size","value":"j"}]';
  expect((await kubectl("patch", "widget", "written", "--type=json", "-p", path)).code).toBe(0);
  expect((await kubectl("label", "widget", "written", "a=b")).code).toBe(0);
  expect((await kubectl("annotate", "widget", "written", "c=d")).code).toBe(0);
  const { out } = await kubectl(
    "get",
    "widget",
    "written",
    "-o",
    "jsonpath={.spec.size} {.metadata.labels.a}",
  );
  expect(out).toBe("j b");
});

test("describe, explain, api-resources and auth can-i answer", async () => {
  await apply(widget("told", "s"));
  expect((await kubectl("describe", "widget", "told")).out).toMatch(/Size:\s+s\n/);
  expect((await kubectl("describe", "pod", "applied")).out).toMatch(/Image:\s+i:2/);
  expect((await kubectl("explain", "widget.spec.size")).out).toContain("<string>");
  expect((await kubectl("explain", "pod.spec")).out).toContain("What the pod runs.");
  expect((await kubectl("api-resources")).out).toMatch(
    /widgets\s+kubectl\.test\/v1\s+true\s+Widget/,
  );
  expect((await kubectl("auth", "can-i", "delete", "pods")).out).toBe("yes\n");
});

test("answers requests that newer clients send", async () => {
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const { code, body } = await session.api.post(
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    review,
  );
  expect(code).toBe(201);
  expect(JSON.stringify(body)).toContain('"username"');
  expect(JSON.stringify((await session.api.get("/openapi/v3/api/v1")).body)).toContain(
    "Containers of the pod.",
  );
});

test("diff and a server-side dry run change nothing", async () => {
  await apply(widget("dry", "s"));
  const path = await session.write("dry.json", widget("dry", "l"));
  const { code, out } = await kubectl("diff", "-f", path);
  expect([code, out]).toEqual([1, expect.stringContaining("+  size: l")]);
  expect((await kubectl("apply", "-f", path, "--dry-run=server")).code).toBe(0);
  expect((await kubectl("get", "widget", "dry", "-o", "jsonpath={.spec.size}")).out).toBe("s");
});

test("deleting a namespace waits until the namespace no longer exists", async () => {
  await kubectl("create", "namespace", "brief");
  await kubectl("create", "configmap", "c", "-n", "brief", "--from-literal=a=b");
  expect((await kubectl("delete", "namespace", "brief")).code).toBe(0);
  expect((await kubectl("get", "namespace", "brief")).err).toContain("NotFound");
});
