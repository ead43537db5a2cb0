// SPDX-License-Identifier: Apache-2.0
// What device plugins and CNI plugins tell of a device, in files of the node. Source: NPWG device information 1.1.0 sections 4
// and 5; network-attachment-definition-client, cniconfig.go.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api";
import type { AttachmentName, Files, Logger } from "@patchbay/core/ports";

/** The files of one directory: `dp` below it is device plugins', `cni` is the CNI runtime's. */
export interface DeviceInfoFiles {
  /** Absolute path of an attachment's own file; `network` is NAMESPACE/NAME. */
  pathOf(attachment: AttachmentName & { readonly network: string }): string;
  /** Puts there what its device plugin says of the device, for the plugins of ADD; it need not say anything. */
  prepare(path: string, device: { readonly resource?: string; readonly id: string }): Promise<void>;
  /** What is told of the device; undefined: nothing that can be read. */
  read(path: string): Promise<JsonObject | undefined>;
  /** Not there is success. */
  remove(path: string): Promise<void>;
}

/** Longest text that is taken, UTF-16 units: it goes into an annotation of the pod. */
const TEXT_MAX = 8192;

/** A part of a file's name, which has no directories. */
function flat(text: string): string {
  return text.replaceAll("/", "-");
}

function infoIn(text: string | undefined): JsonObject | undefined {
  if (text === undefined || text.length > TEXT_MAX) return undefined;
  const info = parseJson(text);
  return isJsonObject(info) && typeof info["type"] === "string" ? info : undefined;
}

/** Below an absolute path, which need not be there. */
export function createDeviceInfoFiles(
  { files, log }: { readonly files: Files; readonly log: Logger },
  directory: string,
): DeviceInfoFiles {
  const own = `${directory}/cni`;
  return {
    pathOf: ({ network, containerId, interfaceName }) =>
      `${own}/${flat(`${network}-${containerId}_${interfaceName}`)}`,
    prepare: async (path, { resource, id }) => {
      if (resource === undefined) return;
      const told = `${directory}/dp/${flat(`${resource}-${id}-device.json`)}`;
      const text = await files.readText(told);
      if (text === undefined) return;
      await files.ensureDirectory(own, 0o755);
      await files.writeAtomic(path, text, 0o644);
    },
    read: async (path) => {
      const text = await files.readText(path);
      const info = infoIn(text);
      if (text !== undefined && info === undefined) {
        const reason = `it is no JSON object with a type, of at most ${String(TEXT_MAX)} characters`;
        log.warn("a file tells nothing of a device", { path, reason });
      }
      return info;
    },
    remove: (path) => files.remove(path),
  };
}
