// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { KubeObject, Meta } from "../objects/object.ts";
import { type ControllerTest, startControllerTest } from "../testing/test-controllers.ts";
import { runTurns } from "../testing/test-server.ts";
import { ensureNamespaceContents, startNamespaceContents } from "./namespace-contents.ts";

const MAP = "kube-root-ca.crt";
const MORE = { rootCaPem: "PEM" };

function aNamespace(metadata: Partial<Meta> = {}): KubeObject {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name: "new", ...metadata } };
}

/** Account and map of the namespace. */
function contentsOf({ server }: ControllerTest, namespace = "new") {
  return {
    account: server.stored("serviceaccounts", "default", namespace),
    map: server.stored("configmaps", MAP, namespace),
  };
}

async function started(): Promise<ControllerTest> {
  const given = await startControllerTest();
  await given.start(startNamespaceContents, MORE);
  await given.server.put("namespaces", aNamespace());
  await runTurns(20);
  return given;
}

describe("the default service account and CA config map of each namespace", () => {
  test("exist from the start of the server", async () => {
    await using given = await startControllerTest();
    await ensureNamespaceContents({ ...given.server.deps, ...MORE });
    expect(contentsOf(given, "default")).toMatchObject({
      account: { metadata: { uid: "uid-account-default" } },
      map: { data: { "ca.crt": "PEM" } },
    });
  });

  test("are created with the namespace", async () => {
    await using given = await started();
    expect(contentsOf(given)).toMatchObject({
      account: { metadata: { name: "default", namespace: "new" } },
      map: {
        metadata: { annotations: { "kubernetes.io/description": expect.any(String) as string } },
        data: { "ca.crt": "PEM" },
      },
    });
  });

  test("are not created in a terminating or missing namespace", async () => {
    await using given = await startControllerTest();
    const { deps } = given.server;
    const metadata = { deletionTimestamp: "2026-01-01T00:00:00Z" };
    await given.server.put("namespaces", aNamespace(metadata));
    await ensureNamespaceContents({ ...deps, ...MORE });
    expect(contentsOf(given)).toEqual({ account: undefined, map: undefined });
  });

  test.each([
    { name: "the account", path: "serviceaccounts/default", of: "account" },
    { name: "the map", path: `configmaps/${MAP}`, of: "map" },
  ] as const)("are recreated when $name is deleted", async ({ path, of }) => {
    await using given = await started();
    const before = contentsOf(given)[of]?.metadata.uid;
    await given.server.send("DELETE", `/api/v1/namespaces/new/${path}`);
    await runTurns(20);
    const after = contentsOf(given)[of]?.metadata.uid;
    expect([after === undefined, after === before]).toEqual([false, false]);
  });

  test("get their data restored after other writes", async () => {
    await using given = await started();
    const body = { data: { "ca.crt": "OTHER", more: "x" }, metadata: { annotations: null } };
    await given.server.send("PATCH", `/api/v1/namespaces/new/configmaps/${MAP}`, { body });
    await runTurns(20);
    const { map } = contentsOf(given);
    expect(map).toMatchObject({ data: { "ca.crt": "PEM" } });
    expect([map?.["data"], map?.metadata.annotations]).toEqual([{ "ca.crt": "PEM" }, undefined]);
  });

  test("are not written while correct", async () => {
    await using given = await started();
    const before = contentsOf(given).map?.metadata.resourceVersion;
    await given.server.put("namespaces", aNamespace({ labels: { a: "b" } }));
    await ensureNamespaceContents({ ...given.server.deps, ...MORE });
    await runTurns(20);
    expect(contentsOf(given).map?.metadata.resourceVersion).toBe(before);
  });

  test("are not recreated after the server stops", async () => {
    await using given = await started();
    given.stop();
    await given.server.send("DELETE", "/api/v1/namespaces/new/serviceaccounts/default");
    await runTurns(20);
    expect(contentsOf(given).account).toBeUndefined();
  });
});
