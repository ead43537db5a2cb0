// SPDX-License-Identifier: Apache-2.0
// Metrics, and the absence of requests while nothing happens. The tests of kube cover watches of silent servers.
import { createFakeClock } from "@patchbay/os/testing";
import { eventually, findUndocumented, metricNamesOf, samplesIn } from "@patchbay/support";
import { expect, test } from "vitest";
import { startController } from "./testing/controllers.ts";
import { useStage } from "./testing/component-environment.ts";

const SOON = { withinMs: 5000 };
const MINUTE_MS = 60_000;
const MINUTES = 15;
const stage = useStage();

async function passes(controller: typeof stage.controller): Promise<number> {
  const text = await controller.metrics();
  return Number(/patchbay_reconcile_total\{.*result="done"\} (\d+)/.exec(text)?.[1] ?? 0);
}

test("an idle controller sends no requests", async () => {
  await stage.scene.createVm([{ name: "one" }]);
  await stage.scene.boot();
  await stage.scene.attachAll();
  await stage.scene.vmiWhen(({ status }) => status?.attachments?.[0]?.state === "Attached");
  await stage.scene.vmWhen(
    ({ metadata, status }) => status?.observedGeneration === metadata.generation,
  );
  await stage.controller.stop();
  const clock = createFakeClock();
  stage.controller = await startController(stage.server, { clock });
  await eventually(async () => (await passes(stage.controller)) > 0, SOON);
  const before = stage.controller.calls.length;
  for (let minute = 0; minute < MINUTES; minute += 1) await clock.advance(MINUTE_MS);
  await clock.advance(MINUTE_MS);
  expect(stage.controller.calls.slice(before)).toEqual([]);
  expect(stage.controller.calls.filter((call) => call.startsWith("list"))).toEqual([]);
});

/** Metrics of events that do not occur while a VM is created. */
const OTHER_EVENTS = /_migrations?_|_from_deletion_|_leading_status$|_status_addresses$/;

test("documents exactly the metrics that it exports", async () => {
  const text = await stage.controller.metrics();
  const names = metricNamesOf("virt-controller");
  expect(names).toContain("kubevirt_vmi_migration_phase_transition_time_from_creation_seconds");
  expect(names.filter((name) => !text.includes(`# TYPE ${name} `))).toEqual([]);
  expect(findUndocumented(text)).toEqual([]);
});

test("counts the phases of a VMI until its deletion", async () => {
  await stage.scene.createVm([{ name: "one" }]);
  await stage.scene.boot();
  const counts = async (): Promise<readonly string[]> => {
    const text = await stage.controller.metrics();
    return samplesIn(text, "kubevirt_vmi_phase_transition_time_seconds").filter((sample) =>
      sample.includes("_count"),
    );
  };
  const name = "kubevirt_vmi_phase_transition_time_seconds_count";
  await eventually(
    async () => (await counts()).includes(`${name}{phase="Scheduling",last_phase="Pending"} 1`),
    SOON,
  );
});

test("every documented metric of VMs changes while a VM is created", async () => {
  const names = metricNamesOf("virt-controller").filter((name) => !OTHER_EVENTS.test(name));
  expect(names).not.toEqual([]);
  const before = await stage.controller.metrics();
  await stage.scene.createVm([{ name: "one" }]);
  await stage.scene.boot();
  const silent = async (): Promise<readonly string[]> => {
    const now = await stage.controller.metrics();
    return names.filter(
      (name) =>
        samplesIn(now, name).join() === "" ||
        samplesIn(now, name).join() === samplesIn(before, name).join(),
    );
  };
  await eventually(async () => (await silent()).length === 0, SOON);
});
