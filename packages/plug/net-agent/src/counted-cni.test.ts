// SPDX-License-Identifier: Apache-2.0
// Each operation of CNI is counted by what became of it, and has the outcome that it has without.
import { createFakeCni } from "@patchbay/cni/testing";
import { AppError } from "@patchbay/core";
import type { AttachmentRequest, Cni } from "@patchbay/core/ports";
import { metricNamesOf, samplesIn } from "@patchbay/support";
import { createMetrics } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import { countedCni } from "./counted-cni.ts";

const NAME = "patchbay_cni_operations_total";
const FAILED = new AppError("CNI_PLUGIN_FAILED", { plugin: "bridge", command: "any" });
const REQUEST: AttachmentRequest = {
  containerId: "box",
  netnsPath: "/run/netns/box",
  interfaceName: "net1",
  config: { cniVersion: "1.1.0", name: "blue", plugins: [{ type: "bridge" }] },
  args: [],
  capabilityArgs: {},
};
const OLD = { ...REQUEST.config, cniVersion: "0.3.1" };
const RESULT = { cniVersion: "1.1.0" };

/** `add` is done before each, so that there is something. */
const ROWS: readonly {
  readonly command: string;
  readonly call: (cni: Cni, config: AttachmentRequest["config"]) => Promise<unknown>;
  readonly fails: "add" | "del" | "check" | "status" | "gc" | "release";
  readonly unasked?: unknown;
}[] = [
  { command: "ADD", call: (cni) => cni.add({ ...REQUEST, interfaceName: "net2" }), fails: "add" },
  { command: "DEL", call: (cni) => cni.del(REQUEST), fails: "del" },
  {
    command: "CHECK",
    call: (cni, config) => cni.check(REQUEST, { ...RESULT, cniVersion: config.cniVersion }),
    fails: "check",
    unasked: false,
  },
  { command: "STATUS", call: (cni, config) => cni.status(config), fails: "status", unasked: false },
  {
    command: "GC",
    call: (cni, config) => cni.gc(config, () => Promise.resolve([REQUEST])),
    fails: "gc",
    unasked: false,
  },
  { command: "RELEASE", call: (cni) => cni.releaseAddresses(REQUEST), fails: "release" },
];

test.each(ROWS)("$command is counted", async ({ command, call, fails, unasked }) => {
  const [fake, metrics] = [createFakeCni(), createMetrics("net-agent")];
  await fake.add(REQUEST);
  const cni = countedCni(fake, metrics);
  const counts = async (): Promise<readonly string[]> =>
    samplesIn(await metrics.print(), NAME)
      .map((line) => line.replace(NAME, ""))
      .toSorted();
  expect(metricNamesOf("net-agent")).toContain(NAME);
  expect(await counts()).toEqual([]);
  fake.failNext(fails, FAILED);
  await expect(call(cni, REQUEST.config)).rejects.toBe(FAILED);
  await call(cni, REQUEST.config);
  const want = [
    `{command="${command}",result="done"} 1`,
    `{command="${command}",result="failed"} 1`,
  ];
  expect(await counts()).toEqual(want);
  if (unasked === undefined) return;
  expect(await call(cni, OLD)).toBe(unasked);
  expect(await counts()).toEqual([...want, `{command="${command}",result="unasked"} 1`]);
});
