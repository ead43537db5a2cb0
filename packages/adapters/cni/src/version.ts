// SPDX-License-Identifier: Apache-2.0
// CNI versions. Source: CNI SPEC 1.1 section 1, "Version considerations"
import { isJsonObject } from "@patchbay/api/json";

/** Released versions, oldest first. Source: CNI SPEC 1.1 "Released versions" */
const KNOWN_VERSIONS: readonly string[] = [
  "0.1.0",
  "0.2.0",
  "0.3.0",
  "0.3.1",
  "0.4.0",
  "1.0.0",
  "1.1.0",
];

/** CNI version of a configuration without the field `cniVersion`. Source: CNI pkg/version ConfigDecoder */
export const VERSION_WHEN_ABSENT = "0.1.0";

export function isKnownVersion(version: string): boolean {
  return KNOWN_VERSIONS.includes(version);
}

/** Checks whether `version` is `minimum` or later. Both must be known versions. */
export function isAtLeast(version: string, minimum: string): boolean {
  return KNOWN_VERSIONS.indexOf(version) >= KNOWN_VERSIONS.indexOf(minimum);
}

export function findNewestVersion(offered: readonly string[]): string | undefined {
  return KNOWN_VERSIONS.findLast((version) => offered.includes(version));
}

/**
 * Parses a plugin's response to VERSION. Returns undefined if the response is invalid. A 0.2.0 response without
 * `supportedVersions` means 0.1.0 and 0.2.0. Source: CNI SPEC 1.1 section 4; CNI pkg/version PluginDecoder
 */
export function parseVersions(answer: unknown): readonly string[] | undefined {
  if (!isJsonObject(answer)) return undefined;
  const { cniVersion, supportedVersions } = answer;
  if (typeof cniVersion !== "string" || cniVersion === "") return undefined;
  if (Array.isArray(supportedVersions) && supportedVersions.length > 0) {
    return supportedVersions.filter((version) => typeof version === "string");
  }
  return cniVersion === "0.2.0" ? ["0.1.0", "0.2.0"] : undefined;
}

/**
 * Returns the newest version up to `wantedVersion` that all plugins support, or `wantedVersion` if they support no common version.
 * Assumes that a plugin with unknown versions supports all versions.
 */
export function negotiateVersion(
  wantedVersion: string,
  supportedByPlugin: readonly (readonly string[] | undefined)[],
): string {
  const commonVersions = KNOWN_VERSIONS.filter(
    (version) =>
      isAtLeast(wantedVersion, version) &&
      supportedByPlugin.every((versions) => versions?.includes(version) !== false),
  );
  return commonVersions.at(-1) ?? wantedVersion;
}
