// SPDX-License-Identifier: Apache-2.0
// A hung service, and one with an expiring certificate, under a real supervisor. The test controls the clock.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { createKubeClient, loadKubeConfig } from "@patchbay/kube";
import {
  createClock,
  createFiles,
  createProcessRunner,
  isRunning,
  readBootId,
  signalProcess,
} from "@patchbay/os";
import { createFakeClock } from "@patchbay/os/testing";
import type { Clock } from "@patchbay/base";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually, findFreePort } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import {
  listDirectories,
  buildHealthSocketPath,
  buildPaths,
} from "../../../packages/standalone/supervisor/src/data-dir/paths.ts";
import { readNewestValidityStartMs } from "../../../packages/standalone/supervisor/src/data-dir/certificates.ts";
import { removeServiceRules } from "../../../packages/standalone/supervisor/src/host/rules.ts";
import { ensureKinds, ensureRights } from "../../../packages/standalone/supervisor/src/objects.ts";
import { prepare } from "../../../packages/standalone/supervisor/src/prepare.ts";
import {
  Component,
  type ComponentProgram,
} from "../../../packages/standalone/supervisor/src/supervisor/component.ts";
import { buildPrograms } from "../../../packages/standalone/supervisor/src/supervisor/components.ts";
import { checkHealth } from "../../../packages/standalone/supervisor/src/supervisor/liveness.ts";
import { Renewal } from "../../../packages/standalone/supervisor/src/supervisor/renewal.ts";
import { asBuilt, processOf, type NamedProcess } from "./processes.ts";

const PERIOD_MS = 10_000;
const TIMEOUT_MS = 90_000;
const DAY_MS = 24 * 3_600_000;
const paths = buildPaths(join(tmpdir(), `standstill-${randomUUID().slice(0, 8)}`));
const files = createFiles();
const clock = createFakeClock();
const runner = createProcessRunner();
const components: Component[] = [];

afterEach(async () => {
  for (const component of components.toReversed()) await component.stop();
  // Cleans up like `down`, because the host has few Service networks.
  await removeServiceRules({ files, runner, paths, log: createSilentLogger() });
  await files.remove(paths.dataDir);
});

/** Starts it like a supervisor. */
async function startComponent(program: ComponentProgram, at: Clock): Promise<Component> {
  const log = createSilentLogger();
  const bootId = await readBootId(files);
  const component = new Component(program, { files, clock: at, log, paths, bootId });
  components.push(component);
  await component.start();
  return component;
}

async function start(program: ComponentProgram): Promise<NamedProcess> {
  await startComponent(program, clock);
  return processOf(paths.dataDir, program.name);
}

/** Advances the clock until another process answers. */
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
    checkHealth(buildHealthSocketPath(paths, name), AbortSignal.timeout(PERIOD_MS)).then(
      () => true,
    );
  await eventually(answers, { withinMs: TIMEOUT_MS });
  return next;
}

/** Accounts and kinds, without which no service is ready. */
async function fillApiServer(nodeName: string): Promise<void> {
  const config = await loadKubeConfig({ kubeconfig: paths.kubeconfig });
  const client = createKubeClient(config, {
    logger: createSilentLogger(),
    clock: createClock(),
    component: "standalone",
  });
  // It answers its supervisor before other clients.
  const isFilled = (): Promise<boolean> =>
    ensureRights(client.store, files, nodeName).then(() => true);
  await eventually(isFilled, { withinMs: TIMEOUT_MS });
  await ensureKinds(client.store);
  await client.close();
}

async function expectStartedAnew(program: ComponentProgram): Promise<void> {
  const first = await start(program);
  process.kill(first.pid, "SIGSTOP");
  try {
    const next = await waitForNext(program.name, first);
    expect([await isRunning(first), await isRunning(next)]).toEqual([false, true]);
  } finally {
    await signalProcess(first, "SIGKILL"); // after a failure: a stopped process receives no other signal
  }
}

test(
  "kills and restarts a hung service, also the API server",
  async () => {
    for (const [path, mode] of listDirectories(paths)) await files.ensureDirectory(path, mode);
    const deps = { files, clock: createClock(), runner, paths };
    const { settings } = await prepare(deps, { apiPort: await findFreePort() });
    const { apiServer, virtController } = buildPrograms(deps, settings);
    await expectStartedAnew(asBuilt(apiServer));
    await fillApiServer(settings.nodeName);
    await expectStartedAnew(virtController);
  },
  TIMEOUT_MS,
);

/** The certificate presented at a port, verified with the authority. */
async function shownAt(port: number, ca: string): Promise<{ readonly endMs: number }> {
  const socket = connect({ host: "127.0.0.1", port, ca });
  await once(socket, "secureConnect");
  const endMs = Date.parse(socket.getPeerCertificate().valid_to);
  socket.destroy();
  return { endMs };
}

test(
  "renews certificates before they expire and restarts services with older ones, one by one",
  async () => {
    for (const [path, mode] of listDirectories(paths)) await files.ensureDirectory(path, mode);
    const real = createClock();
    // They were issued nearly a year ago.
    const past = { ...real, now: () => real.now() - 320 * DAY_MS };
    const before = await prepare(
      { files, clock: past, runner, paths },
      { apiPort: await findFreePort() },
    );
    const { settings, certificates } = before;
    // The API server would renew its own at its start.
    const { apiServer, virtController } = buildPrograms(
      { files, clock: real, runner, paths },
      settings,
    );
    const server = await startComponent(asBuilt(apiServer), past);
    await fillApiServer(settings.nodeName);
    const controller = await startComponent(virtController, past);
    const pids = await Promise.all(
      [apiServer, virtController].map(({ name }) => processOf(paths.dataDir, name)),
    );
    const now = { files, clock: real, runner, paths };
    const renewal = new Renewal({
      clock: real,
      log: createSilentLogger(),
      announce: () => Promise.resolve(),
      renew: async () => {
        await prepare(now, {});
      },
      readNewestValidityStartMs: () => readNewestValidityStartMs(now),
      listServices: () => [server, controller],
    });
    await renewal.renewAndRestart(AbortSignal.timeout(TIMEOUT_MS));
    const { endMs } = await shownAt(settings.apiPort, certificates.ca.certPem);
    expect(endMs - real.now()).toBeGreaterThan(360 * DAY_MS);
    expect(await Promise.all(pids.map((pid) => isRunning(pid)))).toEqual([false, false]);
    await fillApiServer(settings.nodeName);
  },
  TIMEOUT_MS,
);
