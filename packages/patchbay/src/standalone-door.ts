// SPDX-License-Identifier: Apache-2.0
// What does the command line ask of the standalone machine?

/** Functions of `@patchbay/standalone` that the command line calls. */
export interface StandaloneDoor {
  /** Starts everything and resolves when it is ready. */
  readonly up: (options: { readonly dataDir: string }) => Promise<unknown>;
  /** Shuts guests down and stops everything. */
  readonly down: (options: {
    readonly dataDir: string;
    readonly purge: boolean;
  }) => Promise<unknown>;
  /** Runs the API server until a signal comes. */
  readonly runApiServer: (options: {
    readonly dataDir: string;
    readonly port: number;
    readonly signal: AbortSignal;
  }) => Promise<unknown>;
}

/** Loads it, which only the commands do that start or stop the machine. */
export async function loadStandalone(): Promise<StandaloneDoor> {
  const door: unknown = await import("@patchbay/standalone");
  return door as StandaloneDoor; // TODO(standalone): drop the assertion when its door exports them
}
