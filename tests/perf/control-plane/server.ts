// SPDX-License-Identifier: Apache-2.0
// Selects the measured API server: PATCHBAY_KUBECONFIG's, else an embedded one in its own process.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { untilReady } from "./service.ts";

const MAIN = join(import.meta.dirname, "server-main.ts");
const LOOPBACK = "127.0.0.1";

/** An API server and its access. */
export interface Server {
  readonly name: string;
  /** An administrator's kubeconfig. */
  readonly kubeconfig: string;
  /** Address of this machine at which it reaches virt-api. */
  readonly address: string;
  /** Its process if known. */
  readonly pid?: number;
  close(): Promise<void>;
}

function ownAddress(): string {
  const named = process.env["PATCHBAY_PERF_ADDRESS"];
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outward = addresses.find(({ family, internal }) => family === "IPv4" && !internal);
  return named ?? outward?.address ?? LOOPBACK;
}

/** An external server; its processor time is measured if PATCHBAY_PERF_SERVER_PID names its process. */
function foreignServer(kubeconfig: string): Server {
  const pid = Number(process.env["PATCHBAY_PERF_SERVER_PID"] ?? NaN);
  return {
    name: kubeconfig,
    kubeconfig,
    address: ownAddress(),
    ...(Number.isInteger(pid) && { pid }),
    close: () => Promise.resolve(),
  };
}

async function startEmbedded(directory: string): Promise<Server> {
  const flags = ["--conditions=@patchbay/source", "--max-semi-space-size=4"];
  const child = spawn(process.execPath, [...flags, MAIN, directory], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await untilReady(child.stdout, child);
  return {
    name: "embedded",
    kubeconfig: join(directory, "kubeconfig"),
    address: LOOPBACK,
    ...(child.pid !== undefined && { pid: child.pid }),
    close: async () => {
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    },
  };
}

/** Opens the server; an embedded one stores its data in `directory`. */
export async function openServer(directory: string): Promise<Server> {
  const named = process.env["PATCHBAY_KUBECONFIG"] ?? "";
  return named === "" ? startEmbedded(directory) : foreignServer(named);
}

/** Writes a kubeconfig with which an administrator impersonates another user. */
export function writeImpersonating(server: Server, user: string, file: string): void {
  const config = parse(readFileSync(server.kubeconfig, "utf8")) as {
    readonly users: readonly { readonly user: Record<string, unknown> }[];
  };
  for (const entry of config.users) entry.user["as"] = user;
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
}
