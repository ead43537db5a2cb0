// SPDX-License-Identifier: Apache-2.0
// Authentication and RBAC of the API server over real TLS.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type Ask, type Harness, startHarness } from "../harness.ts";
import { requestAs } from "./ask-as.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const MAPS = "/api/v1/namespaces/default/configmaps";
const GROUP = "rbac.authorization.k8s.io";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

function ask(user: string, line: string, input?: Ask): Promise<Answer> {
  return requestAs(api, { user, line, ...input });
}

function subject(user: string) {
  return { kind: "User", name: user, apiGroup: GROUP };
}

async function grant(user: string, rules: readonly object[], namespace = "default") {
  const name = `${user}-${namespace === "" ? "cluster" : namespace}`;
  const prefix = namespace === "" ? "Cluster" : "";
  const base = namespace === "" ? `${RBAC}/cluster` : `${RBAC}/namespaces/${namespace}/`;
  const kind = `${prefix}Role`;
  await api.post(`${base}roles`, { kind, metadata: { name }, rules });
  const { code } = await api.post(`${base}rolebindings`, {
    kind: `${kind}Binding`,
    metadata: { name },
    roleRef: { kind, name, apiGroup: GROUP },
    subjects: [subject(user)],
  });
  expect(code).toBe(201);
  return name;
}

function rule(resources: readonly string[], verbs: readonly string[], change: object = {}) {
  return { apiGroups: [""], resources, verbs, ...change };
}

function map(name: string) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name } };
}

describe("authentication", () => {
  const unprivileged = { token: "" };

  test("anonymous users see only health and version", async () => {
    expect((await api.ask("GET", "/readyz", unprivileged)).text).toBe("ok");
    expect((await api.ask("GET", "/version", unprivileged)).body.major).toBe("1");
    const { code, body } = await api.ask("GET", "/apis", unprivileged);
    expect(code).toBe(403);
    expect(body).toEqual({
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: 'forbidden: User "system:anonymous" cannot get path "/apis"',
      reason: "Forbidden",
      details: {},
      code: 403,
    });
    expect((await api.ask("GET", MAPS, unprivileged)).body.message).toBe(
      'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "default"',
    );
  });

  test("a bearer token names a user, and a wrong one is rejected everywhere", async () => {
    const { body } = await api.ask("GET", MAPS, { token: "jane-token" });
    expect(body.message).toContain('User "jane" cannot list');
    for (const path of [MAPS, "/readyz", "/nowhere"]) {
      const { code, body: refusal } = await api.ask("GET", path, { token: "wrong" });
      expect([code, refusal.reason, refusal.message]).toEqual([
        401,
        "Unauthorized",
        "Unauthorized",
      ]);
    }
  });

  test("ignores front proxy headers from other clients", async () => {
    const headers = { "x-remote-user": "root", "x-remote-group": "system:masters" };
    const { body } = await api.ask("GET", MAPS, { ...unprivileged, headers });
    expect(body.message).toContain('User "system:anonymous"');
  });
});

describe("authorization", () => {
  test("verbs are separate: list without get, watch, or deletecollection", async () => {
    await grant("lister", [rule(["configmaps"], ["list"])]);
    expect((await ask("lister", `GET ${MAPS}`)).code).toBe(200);
    for (const line of [`GET ${MAPS}/x`, `GET ${MAPS}?watch=1`, `DELETE ${MAPS}`]) {
      expect((await ask("lister", line)).code).toBe(403);
    }
    const other = "/api/v1/namespaces/kube-system/configmaps";
    expect((await ask("lister", `GET ${other}`)).body.message).toContain(
      'in the namespace "kube-system"',
    );
    expect((await ask("lister", "GET /api/v1/configmaps")).body.message).toContain(
      "at the cluster scope",
    );
  });

  test("resource names limit get, list and watch by name, and never create", async () => {
    const verbs = ["get", "list", "watch", "create", "update"];
    await grant("named", [rule(["configmaps"], verbs, { resourceNames: ["mine"] })]);
    await api.post(MAPS, map("mine"));
    expect((await ask("named", `GET ${MAPS}/mine`)).code).toBe(200);
    expect((await ask("named", `GET ${MAPS}?fieldSelector=metadata.name%3Dmine`)).code).toBe(200);
    expect((await ask("named", `PUT ${MAPS}/mine`, { body: map("mine") })).code).toBe(200);
    const refused = [`GET ${MAPS}/other`, `GET ${MAPS}`, `GET ${MAPS}?fieldSelector=a!=b`];
    for (const line of refused) {
      expect((await ask("named", line)).code).toBe(403);
    }
    const { body } = await ask("named", `POST ${MAPS}`, { body: map("mine") });
    expect(body.message).toContain('cannot create resource "configmaps"');
  });

  test("a subresource needs its own rule", async () => {
    await grant("statuses", [rule(["pods/status"], ["get", "patch"])]);
    const pods = "/api/v1/namespaces/default/pods";
    expect((await ask("statuses", `GET ${pods}/none/status`)).code).toBe(404);
    const { body } = await ask("statuses", `GET ${pods}/none`);
    expect(body.details).toEqual({ name: "none", kind: "pods" });
    expect((await ask("statuses", `GET ${pods}/none/log`)).body.message).toBe(
      'pods "none" is forbidden: User "statuses" cannot get resource "pods/log" in API group "" in the namespace "default"',
    );
  });

  test("only cluster roles grant paths, and unknown paths are rejected before they are not found", async () => {
    await grant("walker", [{ nonResourceURLs: ["/walks/*"], verbs: ["get"] }], "");
    expect((await ask("walker", "GET /walks/x")).code).toBe(404);
    expect((await ask("walker", "GET /apis/none/v1/things")).body).toMatchObject({
      message:
        'things.none is forbidden: User "walker" cannot list resource "things" in API group "none" at the cluster scope',
      details: { group: "none", kind: "things" },
    });
  });

  test("grants and revocations apply immediately, and a missing role is named", async () => {
    const name = await grant("short", [rule(["configmaps"], ["list"])]);
    expect((await ask("short", `GET ${MAPS}`)).code).toBe(200);
    await api.delete(`${RBAC}/namespaces/default/roles/${name}`);
    const { body } = await ask("short", `GET ${MAPS}`);
    expect(body.message).toMatch(/"default": RBAC: role\.rbac.* "short-default" not found$/);
    await api.delete(`${RBAC}/namespaces/default/rolebindings/${name}`);
    expect((await ask("short", `GET ${MAPS}`)).body.message).toMatch(/in the namespace "default"$/);
  });

  test("groups and service accounts are subjects", async () => {
    await api.post(`${RBAC}/namespaces/default/rolebindings`, {
      metadata: { name: "subjects" },
      roleRef: { kind: "ClusterRole", name: "view", apiGroup: GROUP },
      subjects: [
        { kind: "Group", name: "viewers", apiGroup: GROUP },
        { kind: "ServiceAccount", name: "robot", namespace: "kube-system" },
      ],
    });
    const viewer = await ask("anyone", `GET ${MAPS}`, {
      headers: { "impersonate-group": ["others", "viewers"] },
    });
    const robot = await ask("system:serviceaccount:kube-system:robot", `GET ${MAPS}`);
    const other = await ask("system:serviceaccount:default:robot", `GET ${MAPS}`);
    expect([viewer.code, robot.code, other.code]).toEqual([200, 200, 403]);
  });
});
