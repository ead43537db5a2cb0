// SPDX-License-Identifier: Apache-2.0
// Writes of controllers.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { forbidden } from "../meta/status.ts";
import { aConfigMap } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";
import { changeInternally, deleteInternally } from "./internal-writes.ts";

const AT = {
  kind: CONFIG_MAP,
  address: { bucket: "/configmaps", namespace: "default", name: "m" },
};
const BACKGROUND = { uid: "", propagationPolicy: "Background" };

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
});

afterEach(async () => {
  await server.close();
});

const change = (): Promise<void> =>
  changeInternally(server.deps, AT, (object) => ({ ...object, data: { k: "2" } }));
const remove = (how = BACKGROUND): Promise<void> => deleteInternally(server.deps, AT, how);

test("an object is changed and deleted by the server's own user", async () => {
  await server.put("configmaps", aConfigMap());
  await change();
  expect(server.stored("configmaps", "m")?.["data"]).toEqual({ k: "2" });
  await remove();
  expect(server.stored("configmaps", "m")).toBeUndefined();
  const [asked] = server.webhooks.recorded;
  expect(asked?.request).toMatchObject({
    user: {
      name: "system:kube-controller-manager",
      groups: ["system:masters", "system:authenticated"],
    },
    subresource: "",
    dryRun: false,
  });
});

describe("internal writes", () => {
  test("succeed if the object does not exist", async () => {
    await expect(change()).resolves.toBeUndefined();
    await expect(remove()).resolves.toBeUndefined();
  });

  test("fail for any other reason", async () => {
    await server.put("configmaps", aConfigMap());
    server.webhooks.onRequest = () => {
      throw forbidden({ group: "", resource: "configmaps", kind: "ConfigMap" }, "m", "no");
    };
    await expect(change()).rejects.toMatchObject({ code: 403 });
    await expect(remove()).rejects.toMatchObject({ code: 403 });
  });

  test("fail without deleting another object that now has the same name", async () => {
    await server.put("configmaps", aConfigMap());
    await expect(remove({ ...BACKGROUND, uid: "old" })).rejects.toMatchObject({ code: 409 });
    expect(server.stored("configmaps", "m")).toBeDefined();
  });
});
