// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { Condition, Service } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aBlueDefinition, aNetworkService } from "../testing/network-services.ts";
import { hasReachCondition, planReachCondition } from "./reach.ts";

const NOW = "2026-01-01T00:00:00Z";
const LATER = "2026-01-02T00:00:00Z";
const OTHER: Condition = { type: "example.org/Balanced", status: "True", reason: "Yes" };

function aDefinition(config: unknown) {
  return { ...aBlueDefinition(), spec: { config: JSON.stringify(config) } };
}

function findCondition(service: Service, definition: ReturnType<typeof aDefinition>): Condition {
  const [operation] = planReachCondition(service, { definition }, NOW).slice(-1);
  const { conditions } = (operation as { value: { conditions: [Condition] } }).value;
  return conditions[0];
}

describe("clients on other networks", () => {
  test.each([
    { name: "a bridge with an address", config: { type: "bridge", isGateway: true }, want: "True" },
    {
      name: "a bridge as gateway",
      config: { type: "bridge", isDefaultGateway: true },
      want: "True",
    },
    { name: "ptp", config: { type: "ptp" }, want: "True" },
    {
      name: "a list",
      config: { plugins: [{ type: "bridge", isGateway: true }, { type: "tuning" }] },
      want: "True",
    },
    { name: "a plain bridge", config: { type: "bridge" }, want: "set isGateway: true" },
    {
      name: "a bridge that denies it",
      config: { type: "bridge", isGateway: false },
      want: "isGateway",
    },
    { name: "macvlan", config: { type: "macvlan", isGateway: true }, want: "plugin macvlan gives" },
    { name: "a list without plugins", config: { plugins: [] }, want: "plugin undefined gives" },
  ])("$name", ({ config, want }) => {
    const { status, reason, message } = findCondition(aNetworkService(), aDefinition(config));
    expect([status, reason]).toEqual(
      want === "True" ? ["True", "NodeAddress"] : ["Unknown", "NoNodeAddress"],
    );
    expect(message).toContain(want === "True" ? "have an address on network default/blue" : want);
  });
});

describe("the patch", () => {
  const definition = aDefinition({ type: "ptp" });
  const service = aNetworkService();
  const withStatus = (status: Service["status"]): Service => ({
    ...service,
    metadata: { ...service.metadata, resourceVersion: "7" },
    ...(status && { status }),
  });
  const versionTest = { op: "test", path: "/metadata/resourceVersion", value: "7" };
  const condition = findCondition(service, definition);

  test("tests the version if there are no conditions yet", () => {
    const plan = (status: Service["status"]) =>
      planReachCondition(withStatus(status), { definition }, NOW);
    expect(plan(undefined)[0]).toEqual(versionTest);
    expect(plan({})).toEqual([
      versionTest,
      { op: "add", path: "/status/conditions", value: [condition] },
    ]);
  });

  test("retains other conditions, and the time of an unchanged one", () => {
    const plan = (conditions: readonly Condition[], refusal?: string) =>
      planReachCondition(
        withStatus({ conditions }),
        { definition, ...(refusal !== undefined && { refusal }) },
        LATER,
      );
    expect(plan([OTHER, condition])).toEqual([]);
    const refused = {
      type: condition.type,
      status: "False",
      reason: "ServiceNetworkRefused",
      message: "no network",
      lastTransitionTime: LATER,
    };
    expect(plan([condition, OTHER], "no network")).toEqual([
      { op: "test", path: "/status/conditions", value: [condition, OTHER] },
      { op: "add", path: "/status/conditions", value: [OTHER, refused] },
    ]);
  });

  test("removes the condition of a Service without a request", () => {
    const plain = (conditions?: readonly Condition[]): Service => {
      const { metadata, ...rest } = withStatus(conditions && { conditions });
      return {
        ...rest,
        metadata: { ...metadata, annotations: { [names.SERVICE_NETWORK_ANNOTATION]: "blue" } },
      };
    };
    const plan = (conditions?: readonly Condition[]) =>
      planReachCondition(plain(conditions), { definition: undefined }, NOW);
    expect(plan()).toEqual([]);
    expect(plan([OTHER])).toEqual([]);
    expect(plan([OTHER, condition]).at(-1)).toMatchObject({ value: [OTHER] });
    expect([[OTHER], [OTHER, condition]].map((each) => hasReachCondition(plain(each)))).toEqual([
      false,
      true,
    ]);
    expect(hasReachCondition({})).toBe(false);
  });
});
