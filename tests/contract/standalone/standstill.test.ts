// SPDX-License-Identifier: Apache-2.0
// A real service that stands still, under a real supervisor's hands. Time between questions is the test's.
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKubeClient, loadKubeConfig } from "@patchbay/kube";
import {
  createClock,
  createFiles,
  createProcessRunner,
  isRunning,
  readBootId,
  signalProcess,
} from "@patchbay/os";
import { createFakeClock } from "@patchbay/ports/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "@patchbay/testing";
import { afterEach, expect, test } from "vitest";
import {
  directoriesOf,
  healthSocketOf,
  pathsOf,
} from "../../../packages/standalone/src/data-dir/paths.ts";
import { keepKinds, keepRights } from "../../../packages/standalone/src/objects.ts";
import { prepare } from "../../../packages/standalone/src/prepare.ts";
import {
  Component,
  type ComponentProgram,
} from "../../../packages/standalone/src/supervisor/component.ts";
import { programsOf } from "../../../packages/standalone/src/supervisor/components.ts";
import { askHealth } from "../../../packages/standalone/src/supervisor/liveness.ts";
import { processOf, type NamedProcess } from "./processes.ts";

const PERIOD_MS = 10_000;
const TIMEOUT_MS = 90_000;
const paths = pathsOf(join(tmpdir(), `standstill-${randomUUID().slice(0, 8)}`));
const files = createFiles();
const clock = createFakeClock();
const runner = createProcessRunner();
const components: Component[] = [];

afterEach(async () => {
  for (const component of components.toReversed()) await component.stop();
  await files.remove(paths.dataDir);
});

/** Starts it as a supervisor does. */
async function start(program: ComponentProgram): Promise<NamedProcess> {
  const deps = { files, clock, log: createSilentLogger(), paths, bootId: await readBootId(files) };
  const component = new Component(program, deps);
  components.push(component);
  await component.start();
  return processOf(paths.dataDir, program.name);
}

/** Lets periods pass until the process is another one, which answers. */
async function waitForNext(name: string, before: NamedProcess): Promise<NamedProcess> {
  const next = await eventually(
    async () => {
      await clock.advance(PERIOD_MS);
      const now = await processOf(paths.dataDir, name);
      return now.pid !== before.pid && now;
    },
    { withinMs: TIMEOUT_MS },
  );
  const answers = (): Promise<boolean> =>
    askHealth(healthSocketOf(paths, name), AbortSignal.timeout(PERIOD_MS)).then(() => true);
  await eventually(answers, { withinMs: TIMEOUT_MS });
  return next;
}

/** Accounts and kinds, without which no service is ready. */
async function fillApiServer(nodeName: string): Promise<void> {
  const config = await loadKubeConfig({ kubeconfig: paths.kubeconfig });
  const client = createKubeClient(config, {
    ...{ logger: createSilentLogger(), clock: createClock() },
    component: "standalone",
  });
  // It answers its supervisor before it listens to others.
  const isFilled = (): Promise<boolean> =>
    keepRights(client.store, files, nodeName).then(() => true);
  await eventually(isFilled, { withinMs: TIMEOUT_MS });
  await keepKinds(client.store);
  await client.close();
}

async function expectStartedAnew(program: ComponentProgram): Promise<void> {
  const first = await start(program);
  process.kill(first.pid, "SIGSTOP");
  try {
    const next = await waitForNext(program.name, first);
    expect([await isRunning(first), await isRunning(next)]).toEqual([false, true]);
  } finally {
    await signalProcess(first, "SIGKILL"); // where it failed: a stopped process hears nothing else
  }
}

test(
  "a service that stands still is killed and started anew, and so is the API server",
  async () => {
    for (const [path, mode] of directoriesOf(paths)) await files.ensureDirectory(path, mode);
    const apiPort = 30_000 + (parseInt(randomUUID().slice(0, 4), 16) % 10_000);
    const deps = { files, clock: createClock(), runner, paths };
    const { settings } = await prepare(deps, { apiPort });
    const { apiServer, virtController } = programsOf(deps, settings);
    await expectStartedAnew(apiServer);
    await fillApiServer(settings.nodeName);
    await expectStartedAnew(virtController);
  },
  TIMEOUT_MS,
);
