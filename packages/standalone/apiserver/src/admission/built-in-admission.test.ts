// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Answer, type TestServer, startTestServer } from "../testing/test-server.ts";

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(async () => {
  await server.close();
});

function createPod(priorityClassName?: string): Promise<Answer> {
  const containers = [{ name: "c", image: "i" }];
  const body = { metadata: { name: "p" }, spec: { containers, priorityClassName } };
  return server.send("POST", "/api/v1/namespaces/default/pods", { body });
}

describe("the priority of a pod", () => {
  test.each([
    { name: "high", fields: {}, want: { priority: 7, preemptionPolicy: "PreemptLowerPriority" } },
    {
      name: "high",
      fields: { preemptionPolicy: "Never" },
      want: { priority: 7, preemptionPolicy: "Never" },
    },
    { name: "system-node-critical", fields: {}, want: { priority: 2_000_001_000 } },
  ])("is that of class $name with $fields", async ({ name, fields, want }) => {
    const body = { metadata: { name: "high" }, value: 7, ...fields };
    await server.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", { body });
    expect(await createPod(name)).toMatchObject({ code: 201, body: { spec: want } });
  });

  test("is unset without a class", async () => {
    const { code, body } = await createPod();
    expect(code).toBe(201);
    expect(body["spec"]).not.toHaveProperty("priority");
  });

  test("needs a class that exists", async () => {
    expect(await createPod("none")).toMatchObject({
      code: 403,
      body: { message: 'pods "p" is forbidden: no PriorityClass with name none was found' },
    });
  });
});
