// SPDX-License-Identifier: Apache-2.0
// Gives commands access to the machine's containerd, even while the machine is down.
import { waitUntilServing, type ContainerdLayout } from "@patchbay/containerd";
import { AppError, isAppError, type Clock } from "@patchbay/base";
import { createClock, createFiles, createProcessRunner } from "@patchbay/os";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import { createSilentLogger } from "@patchbay/telemetry";
import { isRoot } from "../config.ts";
import { buildPaths, type Paths } from "../data-dir/paths.ts";
import {
  buildContainerdLayout,
  containerdProgram,
  prepareOwnContainerd,
} from "../runtime/own-containerd.ts";
import { Component } from "../supervisor/component.ts";
import { lockMachine } from "../supervisor/hold-machine.ts";
import { isRecordedRunning } from "../supervisor/state.ts";

const CONTAINERD_START_TIMEOUT_MS = 30_000;

export interface ContainerdAccess {
  readonly clock: Clock;
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly layout: ContainerdLayout;
  readonly paths: Paths;
}

export function runsContainerd(files: Files, { run }: Paths): Promise<boolean> {
  return isRecordedRunning(files, `${run}/containerd.json`);
}

/** Starts containerd, calls `use` and stops containerd. Holds the machine's lock until containerd has stopped. */
async function withOwnContainerd<T>(
  access: ContainerdAccess,
  use: (access: ContainerdAccess) => Promise<T>,
): Promise<T> {
  const { lock, bootId } = await lockMachine(access);
  const deps = { ...access, bootId, log: createSilentLogger() };
  const component = new Component(containerdProgram(deps), deps);
  try {
    await prepareOwnContainerd(deps);
    await component.start();
    return await use(access);
  } finally {
    await component.stop();
    lock.release();
  }
}

/**
 * Calls `use`. Starts containerd for the duration of the call if it does not run.
 * @throws AppError with STANDALONE_NOT_ROOT, CONTAINERD_FAILED, RUNTIME_START_FAILED
 */
export async function withContainerd<T>(
  dataDir: string,
  use: (access: ContainerdAccess) => Promise<T>,
): Promise<T> {
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  const paths = buildPaths(dataDir);
  const layout = buildContainerdLayout(paths);
  const clock = createClock();
  const access = { clock, files: createFiles(), runner: createProcessRunner(), layout, paths };
  if (!(await runsContainerd(access.files, paths))) {
    try {
      return await withOwnContainerd(access, use);
    } catch (error) {
      // Another process is starting the machine and its containerd, so wait for that containerd.
      if (!isAppError(error, "STANDALONE_RUNS_ALREADY")) throw error;
    }
  }
  await waitUntilServing(access, CONTAINERD_START_TIMEOUT_MS);
  return use(access);
}
