// SPDX-License-Identifier: Apache-2.0
// Device information that device plugins and CNI plugins exchange in files on the node. Source: NPWG device information
// 1.1.0 sections 4 and 5; network-attachment-definition-client, cniconfig.go
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { AttachmentName, Files } from "@patchbay/core/interfaces";
import type { Logger } from "@patchbay/base";

/** Files with device information. Device plugins write to the subdirectory `dp`, and CNI plugins write to the subdirectory `cni`. */
export interface DeviceInfoFiles {
  /** Returns the absolute path of an attachment's device information. `network` is NAMESPACE/NAME. */
  pathOf(attachment: AttachmentName & { readonly network: string }): string;
  /** Copies the device plugin's file about `device` to `path`, from which the CNI plugin reads it. Does nothing if no such file exists. */
  prepare(path: string, device: { readonly resource?: string; readonly id: string }): Promise<void>;
  /** Reads device information. Returns undefined if the file is missing or invalid. */
  read(path: string): Promise<JsonObject | undefined>;
  remove(path: string): Promise<void>;
}

/** Maximum length of device information, in UTF-16 code units. net-agent copies the information into annotations, whose size is limited. */
const TEXT_MAX = 8192;

function toFileNamePart(text: string): string {
  return text.replaceAll("/", "-");
}

function parseInfo(text: string | undefined): JsonObject | undefined {
  if (text === undefined || text.length > TEXT_MAX) return undefined;
  const info = parseJson(text);
  return isJsonObject(info) && typeof info["type"] === "string" ? info : undefined;
}

export function createDeviceInfoFiles(
  { files, log }: { readonly files: Files; readonly log: Logger },
  directory: string,
): DeviceInfoFiles {
  const cniDirectory = `${directory}/cni`;
  return {
    pathOf: ({ network, containerId, interfaceName }) =>
      `${cniDirectory}/${toFileNamePart(`${network}-${containerId}_${interfaceName}`)}`,
    prepare: async (path, { resource, id }) => {
      if (resource === undefined) return;
      const pluginFile = `${directory}/dp/${toFileNamePart(`${resource}-${id}-device.json`)}`;
      const text = await files.readText(pluginFile);
      if (text === undefined) return;
      await files.ensureDirectory(cniDirectory, 0o755);
      await files.writeAtomic(path, text, 0o644);
    },
    read: async (path) => {
      const text = await files.readText(path);
      const info = parseInfo(text);
      if (text !== undefined && info === undefined) {
        const reason = `it is no JSON object with a type, of at most ${String(TEXT_MAX)} characters`;
        log.warn("a device information file is unusable", { path, reason });
      }
      return info;
    },
    remove: (path) => files.remove(path),
  };
}
