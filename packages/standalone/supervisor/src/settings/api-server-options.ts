// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import { readNumber, readText } from "../data-dir/json.ts";

export interface ApiServerOptions {
  readonly port: number;
  /** Address at which pods reach the API server, in addition to the loopback address; unset for none. */
  readonly secondHost?: string;
  /** Network of Services; unset on machines that are older than this setting. */
  readonly serviceNetwork?: string;
}

/**
 * Returns the API server's options. `port` overrides the settings file.
 * @throws AppError with STANDALONE_SETTING_INVALID when neither has a port
 */
export function apiServerOptions(
  port: number | undefined,
  stored: JsonObject | undefined,
): ApiServerOptions {
  const chosenPort = port ?? readNumber(stored, "apiPort");
  if (chosenPort === undefined) {
    throw new AppError("STANDALONE_SETTING_INVALID", { causes: "--port is missing" });
  }
  const secondHost = readText(stored, "apiAddress");
  const serviceNetwork = readText(stored, "serviceSubnet");
  return {
    port: chosenPort,
    ...(secondHost !== "" && { secondHost }),
    ...(serviceNetwork !== "" && { serviceNetwork }),
  };
}
