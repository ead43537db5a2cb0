// SPDX-License-Identifier: Apache-2.0
// Controllers of users and their rights, each on a server in memory.
import { describe, expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { type ControllerTest, startControllerTest } from "../testing/test-controllers.ts";
import { runTurns } from "../testing/test-server.ts";
import { aggregateClusterRoles, startClusterRoleAggregation } from "./cluster-role-aggregation.ts";
import { ensureDefaultRoles } from "./default-roles.ts";
import { startTokenSecrets } from "./token-secrets.ts";

const RBAC = "rbac.authorization.k8s.io";
const ROLES = `${RBAC}/clusterroles`;

function role(
  name: string,
  fields: Fields,
  labels: Readonly<Record<string, string>> = {},
): KubeObject {
  return { apiVersion: `${RBAC}/v1`, kind: "ClusterRole", metadata: { name, labels }, ...fields };
}

function ruleOf(resource: string): Fields {
  return { apiGroups: [""], resources: [resource], verbs: ["get"] };
}

function gathering(...labels: readonly string[]): Fields {
  const clusterRoleSelectors = labels.map((label) => ({ matchLabels: { [label]: "yes" } }));
  return { aggregationRule: { clusterRoleSelectors } };
}

function rulesOf({ server }: ControllerTest, name: string): unknown {
  return server.stored(ROLES, name, "")?.["rules"];
}

describe("an aggregated role", () => {
  const PODS = role("pods", { rules: [ruleOf("pods"), ruleOf("both")] }, { a: "yes" });
  const NODES = role("nodes", { rules: [ruleOf("nodes"), ruleOf("both")] }, { b: "yes" });
  const OTHER = role("other", { rules: [ruleOf("other")] }, { a: "no" });

  test("contains each rule of the selected roles once, in the order of their names", async () => {
    await using given = await startControllerTest();
    const all = role("all", { ...gathering("a", "b"), rules: [ruleOf("old")] }, { a: "yes" });
    await given.server.put(ROLES, PODS, NODES, OTHER, all);
    await aggregateClusterRoles(given.server.deps);
    expect(rulesOf(given, "all")).toEqual([ruleOf("nodes"), ruleOf("both"), ruleOf("pods")]);
    expect(rulesOf(given, "pods")).toEqual(PODS["rules"]);
  });

  test("has no rules if it selects no role", async () => {
    await using given = await startControllerTest();
    await given.server.put(ROLES, PODS, role("none", { ...gathering(), rules: [ruleOf("old")] }));
    await aggregateClusterRoles(given.server.deps);
    expect(rulesOf(given, "none")).toEqual([]);
  });

  test("settles when roles select each other", async () => {
    await using given = await startControllerTest();
    const one = role("one", { ...gathering("two", "a") }, { one: "yes" });
    const two = role("two", gathering("one"), { two: "yes" });
    await given.server.put(ROLES, one, two, PODS);
    await aggregateClusterRoles(given.server.deps);
    expect([rulesOf(given, "one"), rulesOf(given, "two")]).toEqual([PODS["rules"], PODS["rules"]]);
  });

  test("is not written if it was deleted meanwhile", async () => {
    await using given = await startControllerTest();
    await given.start(startClusterRoleAggregation);
    const address = { bucket: ROLES, namespace: "", name: "all" };
    await given.server.put(ROLES, role("all", gathering("a")), PODS);
    await given.server.deps.store.write((transaction) =>
      transaction.remove(address, role("all", gathering("a"))),
    );
    await runTurns(20);
    expect(given.server.stored(ROLES, "all", "")).toBeUndefined();
  });

  test("may be part of another role whose name sorts first", async () => {
    await using given = await startControllerTest();
    const outer = role("a-outer", gathering("inner"));
    const inner = role("b-inner", gathering("a"), { inner: "yes" });
    await given.server.put(ROLES, outer, inner, PODS);
    await aggregateClusterRoles(given.server.deps);
    expect(rulesOf(given, "a-outer")).toEqual(PODS["rules"]);
  });

  test("follows changes of roles, and is not written without changes", async () => {
    await using given = await startControllerTest();
    await given.server.put(ROLES, role("all", gathering("a")));
    await given.start(startClusterRoleAggregation);
    await given.server.put(ROLES, PODS);
    await runTurns(20);
    expect(rulesOf(given, "all")).toHaveLength(2);
    const versionOf = () => given.server.stored(ROLES, "all", "")?.metadata.resourceVersion;
    const before = versionOf();
    await given.server.put(ROLES, OTHER);
    await given.server.put("configmaps", { ...OTHER, kind: "ConfigMap" });
    await runTurns(20);
    expect(versionOf()).toBe(before);
    given.stop();
    await given.server.put(ROLES, role("late", { rules: [ruleOf("late")] }, { a: "yes" }));
    await runTurns(20);
    expect(versionOf()).toBe(before);
  });
});

describe("default roles and bindings", () => {
  const ADMIN = "cluster-admin";
  const KEPT = [ROLES, `${RBAC}/clusterrolebindings`];
  const AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate";

  async function kept(change: (object: KubeObject) => void = () => undefined) {
    await using given = await startControllerTest();
    const { server } = given;
    await ensureDefaultRoles(server.deps);
    const read = (of: string): KubeObject => {
      const object = server.stored(of, ADMIN, "");
      if (object === undefined) throw new Error(`there is no ${of} ${ADMIN}`);
      return object;
    };
    const before = KEPT.map(read);
    for (const of of KEPT) {
      const object = read(of);
      change(object);
      await server.put(of, object);
    }
    await ensureDefaultRoles(server.deps);
    return { before, after: KEPT.map(read) };
  }

  const visible = ({ metadata, ...fields }: KubeObject) => {
    return { ...fields, labels: metadata.labels, annotations: metadata.annotations };
  };

  test("are created and labeled as built-in", async () => {
    const { before } = await kept();
    expect(before).toMatchObject([
      {
        metadata: {
          name: ADMIN,
          labels: { "kubernetes.io/bootstrapping": "rbac-defaults" },
          annotations: { [AUTOUPDATE]: "true" },
        },
        rules: [
          { apiGroups: ["*"], resources: ["*"], verbs: ["*"] },
          { nonResourceURLs: ["*"], verbs: ["*"] },
        ],
      },
      { subjects: [{ kind: "Group", name: "system:masters" }] },
    ]);
  });

  test.each<{ name: string; change: (object: KubeObject) => void }>([
    {
      name: "labels and annotations",
      change: ({ metadata }) => {
        delete metadata.labels;
        delete metadata.annotations;
      },
    },
    {
      name: "rules and subjects",
      change: (object) => {
        delete object["rules"];
        delete object["subjects"];
      },
    },
    { name: "nothing and write nothing if unchanged", change: () => undefined },
  ])("restore $name", async ({ change }) => {
    const { before, after } = await kept(change);
    expect(after.map(visible)).toEqual(before.map(visible));
  });

  test("retain additional rules and subjects", async () => {
    const { after } = await kept((object) => {
      object["rules"] = [ruleOf("pods")];
      object["subjects"] = [{ kind: "User", name: "jane" }];
      object.metadata.labels = { mine: "yes" };
    });
    const [adminRole, binding] = after;
    expect(adminRole).toMatchObject({ metadata: { labels: { mine: "yes" } } });
    expect(adminRole?.["rules"]).toHaveLength(3);
    expect(binding?.["subjects"]).toMatchObject([{ name: "jane" }, { name: "system:masters" }]);
  });

  test("stay unchanged if their autoupdate annotation is false", async () => {
    const { after } = await kept((object) => {
      object["rules"] = [];
      object["subjects"] = [];
      object.metadata.annotations = { [AUTOUPDATE]: "false" };
    });
    expect(after).toMatchObject([{ rules: [] }, { subjects: [] }]);
  });
});

describe("a secret that requests a token", () => {
  const TYPE = "kubernetes.io/service-account-token";
  const NAME = "kubernetes.io/service-account.name";
  const UID = "kubernetes.io/service-account.uid";
  const base64 = (text: string): string => Buffer.from(text).toString("base64");

  function secret(name: string, annotations: Readonly<Record<string, string>>, more: Fields = {}) {
    const metadata = { name, namespace: "default", uid: `uid-${name}`, annotations };
    return { apiVersion: "v1", kind: "Secret", type: TYPE, metadata, ...more };
  }

  async function started(...secrets: readonly KubeObject[]): Promise<ControllerTest> {
    const given = await startControllerTest();
    await given.server.put("secrets", ...secrets);
    const { accountTokens } = given.server.deps;
    await given.start(startTokenSecrets, { accountTokens, rootCaPem: "PEM" });
    return given;
  }

  const isFilled = ({ server }: ControllerTest, name = "s"): Promise<void> =>
    expect.poll(() => server.stored("secrets", name)?.metadata.annotations?.[UID]).toBeDefined();

  test("receives the token, the namespace, the CA and the account's uid", async () => {
    await using given = await started(secret("s", { [NAME]: "default" }));
    await isFilled(given);
    expect(given.server.stored("secrets", "s")).toMatchObject({
      metadata: { annotations: { [NAME]: "default", [UID]: "uid-account-default" } },
      data: { "ca.crt": base64("PEM"), namespace: base64("default") },
    });
    const token = (given.server.stored("secrets", "s")?.["data"] as Fields)["token"];
    expect(Buffer.from(String(token), "base64").toString().split(".")).toHaveLength(3);
  });

  test("receives the token when created later, and retains an existing token and other data", async () => {
    await using given = await started();
    const data = { token: base64("mine"), more: base64("more") };
    await given.server.put("secrets", secret("s", { [NAME]: "default" }, { data }));
    await isFilled(given);
    expect(given.server.stored("secrets", "s")?.["data"]).toMatchObject({
      ...data,
      namespace: base64("default"),
    });
  });

  test.each([
    { name: "its service account is missing", annotations: { [NAME]: "gone" } },
    {
      name: "its service account was recreated",
      annotations: { [NAME]: "default", [UID]: "old" },
    },
  ])("is removed where $name", async ({ annotations }) => {
    await using given = await started(secret("s", annotations));
    expect(given.server.stored("secrets", "s")).toBeUndefined();
  });

  test("is removed with its account, without affecting other secrets", async () => {
    const opaque = { ...secret("opaque", { [NAME]: "default" }), type: "Opaque" };
    await using given = await started(secret("s", { [NAME]: "default" }), opaque);
    await given.server.put("serviceaccounts", {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "bot", namespace: "default", uid: "uid-bot" },
    });
    await given.server.put("secrets", secret("of-bot", { [NAME]: "bot" }));
    await isFilled(given);
    await isFilled(given, "of-bot");
    await given.server.send("DELETE", "/api/v1/namespaces/default/serviceaccounts/default");
    await expect.poll(() => given.server.stored("secrets", "s")).toBeUndefined();
    await runTurns(20);
    const left = ["s", "opaque", "of-bot"].filter(
      (name) => given.server.stored("secrets", name) !== undefined,
    );
    expect(left).toEqual(["opaque", "of-bot"]);
    expect(given.server.stored("secrets", "opaque")?.["data"]).toBeUndefined();
  });
});
