// SPDX-License-Identifier: Apache-2.0
// Controllers of budgets, claims, volumes and definitions, each on a server in memory.
import { describe, expect, test } from "vitest";
import type { KubeObject, Meta } from "../objects/object.ts";
import { aPod, widgetDefinition } from "../testing/objects.ts";
import { startControllerTest } from "../testing/test-controllers.ts";
import { runTurns } from "../testing/test-server.ts";
import { startDefinitionCleanup, startDefinitionNames } from "./custom-resource-definitions.ts";
import { startDisruptionBudgets } from "./computed-status.ts";
import { startStorageProtection } from "./storage-protection.ts";

const NOW = "2026-01-01T00:00:00Z";
const TERMINATING = { deletionTimestamp: NOW };

function anObject(
  kind: string,
  metadata: Partial<Meta> & { readonly name: string },
  more: Record<string, unknown> = {},
): KubeObject {
  return {
    apiVersion: "v1",
    kind,
    metadata: { uid: `uid-${metadata.name}`, ...metadata },
    ...more,
  };
}

describe("disruption budgets", () => {
  const BUDGETS = "policy/poddisruptionbudgets";
  const budget = (name = "pdb") => ({
    ...anObject(
      "PodDisruptionBudget",
      { name, namespace: "default", generation: 3 },
      {
        spec: { minAvailable: 1, selector: { matchLabels: { app: "a" } } },
        status: { conditions: [] },
      },
    ),
    apiVersion: "policy/v1",
  });
  const pod = (name: string, app: string) => aPod(name, { metadata: { labels: { app } } });

  test("count pods at startup and on each change", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    const status = () => server.stored(BUDGETS, "pdb")?.["status"];
    await server.put("pods", pod("p1", "a"));
    await server.put(BUDGETS, budget());
    await given.start(startDisruptionBudgets);
    expect(status()).toMatchObject({
      currentHealthy: 1,
      disruptionsAllowed: 0,
      observedGeneration: 3,
    });
    await server.put("pods", pod("p2", "a"));
    await runTurns(10);
    expect(status()).toMatchObject({ currentHealthy: 2, expectedPods: 2, disruptionsAllowed: 1 });
    await server.put("pods", pod("p2", "b"));
    await runTurns(10);
    expect(status()).toMatchObject({ currentHealthy: 1, expectedPods: 1 });
    await server.put(BUDGETS, budget("late"));
    await runTurns(10);
    expect(server.stored(BUDGETS, "late")?.["status"]).toMatchObject({ currentHealthy: 1 });
  });

  test("are not written for pods that they do not select, or after the stop", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put(BUDGETS, budget());
    await given.start(startDisruptionBudgets);
    const before = server.stored(BUDGETS, "pdb")?.metadata.resourceVersion;
    await server.put("pods", pod("p1", "b"));
    await server.put("configmaps", anObject("ConfigMap", { name: "m", namespace: "default" }));
    await runTurns(10);
    given.stop();
    await server.put("pods", pod("p2", "a"));
    await runTurns(10);
    expect(server.stored(BUDGETS, "pdb")?.metadata.resourceVersion).toBe(before);
  });
});

describe("protection of storage", () => {
  const claim = (name: string, more: Partial<Meta> = TERMINATING) =>
    anObject("PersistentVolumeClaim", {
      name,
      namespace: "default",
      finalizers: ["kubernetes.io/pvc-protection"],
      ...more,
    });
  const volume = (name: string, phase: string) =>
    anObject(
      "PersistentVolume",
      { name, finalizers: ["kubernetes.io/pv-protection"], ...TERMINATING },
      {
        status: { phase },
      },
    );
  const user = (name: string, claimName: string, nodeName = "n1") =>
    aPod(name, {
      spec: { nodeName, volumes: [{ name: "v", persistentVolumeClaim: { claimName } }] },
    });

  test("releases unused volumes and claims at startup", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put("pods", user("p1", "used"), user("p2", "waiting", ""));
    await server.put(
      "persistentvolumeclaims",
      claim("used"),
      claim("waiting"),
      claim("free"),
      claim("living", {}),
      claim("kept", { ...TERMINATING, finalizers: ["kubernetes.io/pvc-protection", "test.io/x"] }),
    );
    await server.put("persistentvolumes", volume("bound", "Bound"), volume("released", "Released"));
    await given.start(startStorageProtection);
    const claims = ["used", "waiting", "free", "living", "kept"].map(
      (name) => server.stored("persistentvolumeclaims", name)?.metadata.finalizers,
    );
    expect(claims).toEqual([
      ["kubernetes.io/pvc-protection"],
      undefined,
      undefined,
      ["kubernetes.io/pvc-protection"],
      ["test.io/x"],
    ]);
    expect(server.stored("persistentvolumes", "bound", "")).toBeDefined();
    expect(server.stored("persistentvolumes", "released", "")).toBeUndefined();
  });

  test("releases a claim when its pod is deleted or terminating", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put("pods", user("p1", "used"));
    await server.put("persistentvolumeclaims", claim("used"));
    await given.start(startStorageProtection);
    await server.deps.store.write((transaction) => {
      transaction.remove({ bucket: "/pods", namespace: "default", name: "p1" }, user("p1", "used"));
    });
    await server.put("persistentvolumeclaims", claim("late"));
    await runTurns(20);
    const left = server.deps.store.list({ bucket: "/persistentvolumeclaims" });
    expect(left).toEqual([]);
  });

  test("stops with the server", async () => {
    await using given = await startControllerTest();
    await given.start(startStorageProtection);
    given.stop();
    await given.server.put("persistentvolumeclaims", claim("late"));
    await runTurns(20);
    expect(given.server.stored("persistentvolumeclaims", "late")).toBeDefined();
  });
});

describe("custom resource definitions", () => {
  const DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions";
  const FINALIZER = "customresourcecleanup.apiextensions.k8s.io";
  const terminating = (): KubeObject => {
    const definition = widgetDefinition();
    return {
      ...definition,
      metadata: { ...definition.metadata, finalizers: [FINALIZER], ...TERMINATING },
    };
  };
  const widget = (name: string, finalizers: string[] = []): KubeObject => ({
    apiVersion: "test.io/v1",
    kind: "Widget",
    metadata: { name, namespace: "default", uid: `uid-${name}`, finalizers },
  });

  test("are deleted after their objects", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put(DEFINITIONS, widgetDefinition());
    await server.put("test.io/widgets", widget("a"), widget("b", ["test.io/x"]));
    await given.start(startDefinitionCleanup);
    expect(server.stored("test.io/widgets", "a")).toBeDefined();
    await server.put(DEFINITIONS, terminating());
    await runTurns(40);
    expect(server.stored("test.io/widgets", "a")).toBeUndefined();
    expect(server.stored(DEFINITIONS, "widgets.test.io", "")?.["status"]).toMatchObject({
      conditions: [
        { type: "Established" },
        {
          type: "Terminating",
          status: "True",
          reason: "InstanceDeletionInProgress",
          message: "CustomResource deletion is in progress",
          lastTransitionTime: "1970-01-01T00:00:00Z",
        },
      ],
    });
    const path = "/apis/test.io/v1/namespaces/default/widgets/b";
    await server.send("PATCH", path, { body: { metadata: { finalizers: null } } });
    await runTurns(40);
    expect(server.stored("test.io/widgets", "b")).toBeUndefined();
    expect(server.stored(DEFINITIONS, "widgets.test.io", "")).toBeUndefined();
  });

  test("are deleted at startup if they have no objects", async () => {
    await using given = await startControllerTest();
    await given.server.put(DEFINITIONS, terminating());
    await given.start(startDefinitionCleanup);
    expect(given.server.stored(DEFINITIONS, "widgets.test.io", "")).toBeUndefined();
  });

  test("get their names when no other definition uses the same names", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    const names = { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" };
    const waiting = widgetDefinition({ names: { ...names, plural: "gadgets" } });
    const late: KubeObject = {
      ...waiting,
      metadata: { name: "gadgets.test.io", uid: "uid-late" },
      status: { acceptedNames: {}, conditions: [{ type: "NamesAccepted", status: "False" }] },
    };
    await server.put(DEFINITIONS, widgetDefinition(), late);
    await given.start(startDefinitionNames);
    const accepted = () =>
      (
        server.stored(DEFINITIONS, "gadgets.test.io", "")?.["status"] as {
          conditions: { type: string; status: string }[];
        }
      ).conditions.find(({ type }) => type === "NamesAccepted")?.status;
    expect(accepted()).toBe("False");
    await server.deps.store.write((transaction) => {
      transaction.remove(
        { bucket: DEFINITIONS, namespace: "", name: "widgets.test.io" },
        widgetDefinition(),
      );
    });
    await runTurns(20);
    expect(accepted()).toBe("True");
  });
});
