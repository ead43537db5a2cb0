// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../objects/object.ts";
import { widgetDefinition } from "../testing/objects.ts";
import { type ControllerTest, startControllerTest } from "../testing/test-controllers.ts";
import { runTurns } from "../testing/test-server.ts";
import { startLocalApiServices } from "./local-api-services.ts";

const SERVICES = "apiregistration.k8s.io/apiservices";
const DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions";
const LABEL = "kube-aggregator.kubernetes.io/automanaged";
const WIDGETS = "v1.test.io";

function serviceOf({ server }: ControllerTest, name: string): KubeObject | undefined {
  return server.stored(SERVICES, name, "");
}

async function change(given: ControllerTest, object: KubeObject | undefined): Promise<void> {
  if (object === undefined) throw new Error("there is no such APIService");
  await given.server.put(SERVICES, object);
  await runTurns(20);
}

describe("the APIServices of a new server", () => {
  test("name each group version except their own", async () => {
    await using given = await startControllerTest();
    await given.start(startLocalApiServices);
    expect(serviceOf(given, "v1.")).toMatchObject({
      metadata: { labels: { [LABEL]: "onstart" }, creationTimestamp: expect.any(String) as string },
      spec: { version: "v1", groupPriorityMinimum: 18_000, versionPriority: 1 },
      status: { conditions: [{ type: "Available", status: "True", reason: "Local" }] },
    });
    expect(serviceOf(given, "v1.")).not.toHaveProperty("spec.group");
    expect(serviceOf(given, "v1.apps")).toMatchObject({ spec: { group: "apps", version: "v1" } });
    expect(serviceOf(given, "v1.apiregistration.k8s.io")).toBeUndefined();
  });

  test("include those of custom resources", async () => {
    await using given = await startControllerTest();
    await given.server.put(DEFINITIONS, widgetDefinition());
    await given.start(startLocalApiServices);
    expect(serviceOf(given, WIDGETS)).toMatchObject({
      metadata: { labels: { [LABEL]: "true" } },
      spec: { group: "test.io", version: "v1", groupPriorityMinimum: 1000, versionPriority: 100 },
    });
  });

  test("drop only groups that the server no longer serves", async () => {
    await using given = await startControllerTest();
    const old = (name: string, labels: Readonly<Record<string, string>>): KubeObject => ({
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name, labels },
    });
    await given.server.put(
      SERVICES,
      old("v1.gone", { [LABEL]: "onstart" }),
      old("v1.gone.io", { [LABEL]: "true" }),
      old("v1.remote.io", {}),
    );
    await given.start(startLocalApiServices);
    const left = ["v1.gone", "v1.gone.io", "v1.remote.io"].filter(
      (name) => serviceOf(given, name) !== undefined,
    );
    expect(left).toEqual(["v1.remote.io"]);
  });

  test.each([
    {
      name: "a changed local APIService is restored",
      labels: { [LABEL]: "onstart" },
      want: 18_000,
    },
    { name: "a remote APIService is not changed", labels: {}, want: 5 },
  ])("$name", async ({ labels, want }) => {
    await using given = await startControllerTest();
    await given.server.put(SERVICES, {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: "v1.", labels },
      spec: { version: "v1", groupPriorityMinimum: 5, versionPriority: 5 },
    });
    await given.start(startLocalApiServices);
    expect(serviceOf(given, "v1.")).toMatchObject({ spec: { groupPriorityMinimum: want } });
  });
});

describe("the APIService of a custom resource group", () => {
  async function withWidgets(): Promise<ControllerTest> {
    const given = await startControllerTest();
    await given.start(startLocalApiServices);
    await given.server.put(DEFINITIONS, widgetDefinition());
    await runTurns(20);
    return given;
  }

  test("is created and deleted with its definition", async () => {
    await using given = await withWidgets();
    expect(serviceOf(given, WIDGETS)).toBeDefined();
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    await given.server.send("DELETE", `${path}/widgets.test.io`);
    await runTurns(20);
    expect(serviceOf(given, WIDGETS)).toBeUndefined();
  });

  test("is corrected and recreated while the server runs", async () => {
    await using given = await withWidgets();
    const service = serviceOf(given, WIDGETS);
    const spec = { group: "test.io", version: "v1", groupPriorityMinimum: 5, versionPriority: 5 };
    await change(given, service && { ...service, spec });
    expect(serviceOf(given, WIDGETS)).toMatchObject({ spec: { groupPriorityMinimum: 1000 } });
    await given.server.send("DELETE", `/apis/apiregistration.k8s.io/v1/apiservices/${WIDGETS}`);
    await runTurns(20);
    expect(serviceOf(given, WIDGETS)).toBeDefined();
  });

  test("is not written if it is correct", async () => {
    await using given = await withWidgets();
    const before = serviceOf(given, WIDGETS)?.metadata.resourceVersion;
    await given.server.put(DEFINITIONS, widgetDefinition());
    await runTurns(20);
    expect(serviceOf(given, WIDGETS)?.metadata.resourceVersion).toBe(before);
  });

  test("is not changed after the server stops", async () => {
    await using given = await withWidgets();
    given.stop();
    const service = serviceOf(given, WIDGETS);
    await change(given, service && { ...service, spec: {} });
    expect(serviceOf(given, WIDGETS)).toMatchObject({ spec: {} });
  });
});
