// SPDX-License-Identifier: Apache-2.0
// Brings caches, application and server together.
import { randomBytes } from "node:crypto";
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ObjectMeta,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { hasVm, type MacOwner } from "@patchbay/core";
import { ClientAuthority, startServer, type DaemonContext } from "@patchbay/daemon";
import { createCache } from "@patchbay/kube";
import { createFiles } from "@patchbay/os";
import type { Cache } from "@patchbay/ports";
import { createApp, type Callers } from "./http/app.ts";
import type { Flags } from "./config.ts";
import { askApiServer } from "./networks/access-review.ts";
import { Turns } from "./changes/races.ts";
import { askForPods } from "./callers/token-pod.ts";

function toOwner(metadata: ObjectMeta, spec: VmiSpec): MacOwner {
  return { namespace: metadata.namespace ?? "", name: metadata.name, spec };
}

function listMacOwners(
  vms: Cache<VirtualMachine>,
  vmis: Cache<VirtualMachineInstance>,
): readonly MacOwner[] {
  const lone = vmis.list().filter((vmi) => !hasVm(vmi));
  return [
    ...vms.list().map((vm) => toOwner(vm.metadata, vm.spec.template.spec)),
    ...lone.map((vmi) => toOwner(vmi.metadata, vmi.spec)),
  ];
}

function authorityOf(caFile: string | undefined, names: readonly string[]) {
  return caFile === undefined ? undefined : new ClientAuthority({ caFile, names });
}

function callersOf(flags: Flags): Callers {
  const frontProxy = authorityOf(flags.requestheaderClientCaFile, flags.requestheaderAllowedNames);
  const webhooks = authorityOf(flags.webhookClientCaFile, flags.webhookAllowedNames);
  return {
    ...(frontProxy === undefined ? {} : { frontProxy }),
    ...(webhooks === undefined ? {} : { webhooks }),
  };
}

/** Serves until the signal is aborted. */
export async function runApi(context: DaemonContext, flags: Flags): Promise<void> {
  const { client, log, signal } = context;
  const vms = createCache(client.reflect(VIRTUAL_MACHINES), {
    logger: log,
    trim: ({ apiVersion, kind, metadata, spec }) => ({ apiVersion, kind, metadata, spec }),
  });
  const vmis = createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES), {
    logger: log,
    trim: ({ apiVersion, kind, metadata, spec }) => ({ apiVersion, kind, metadata, spec }),
  });
  const callers = callersOf(flags);
  const deps = {
    store: client.store,
    log,
    randomBytes,
    turns: new Turns(),
    mayReadNetwork: askApiServer(client.store),
    nodeOfPod: askForPods(client.store),
    listMacOwners: () => listMacOwners(vms, vmis),
  };
  const { listenAddress, port, tlsCertFile: certFile, tlsPrivateKeyFile: keyFile } = flags;
  const clientAuthorities = Object.values(callers);
  const server = await startServer(
    createApp(deps, callers),
    { listenAddress, port, certFile, keyFile, clientAuthorities },
    { files: createFiles(), log, signal },
  );
  const caches = [vms, vmis];
  for (const cache of caches) cache.start(signal);
  const synced = Promise.all(caches.map((cache) => cache.synced()));
  // A stop that comes before the API server has answered ends the waiting too.
  await Promise.race([synced, server.closed]);
  if (!signal.aborted) {
    log.info("listening", { port: server.port });
    context.ready();
  }
  await server.closed;
}
