// SPDX-License-Identifier: Apache-2.0
// Errors on a node: of the container runtime, files, processes and Services.
import type { ErrorEntry } from "../entry.ts";

export const RUNTIME_ERRORS = {
  RUNTIME_IMAGE_MISSING: {
    summary: "image {image} is not on this machine; add it with: patchbay image add {image} SOURCE",
    owner: "user",
    retry: "on-change",
    http: 404,
  },
  IMAGE_NAME_INVALID: {
    summary:
      "{image} is not an image name; valid names are, for example, guest, guest:v2 and registry.example/team/guest:v2",
    owner: "user",
    retry: "never",
    http: 400,
  },
  IMAGE_IN_USE: {
    summary: "image {image} is in use: {users}",
    owner: "user",
    retry: "on-change",
    http: 409,
  },
  RUNTIME_IMAGE_INVALID: {
    summary: "the configuration of image {image} cannot be used: {reason}",
    owner: "user",
    retry: "backoff",
    http: 500,
  },
  RUNTIME_RECORD_BROKEN: {
    summary: "the record {path} cannot be read",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  RUNTIME_POD_FAILED: {
    summary: "pod {pod} cannot be started: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  RUNTIME_CONTAINER_REFUSED: {
    summary: "container {container} cannot be created: {reason}",
    owner: "user",
    retry: "backoff",
    http: 422,
  },
  RUNTIME_VOLUME_FAILED: {
    summary: "volume {volume} cannot be set up: {reason}",
    owner: "user",
    retry: "backoff",
    http: 422,
  },
  RUNTIME_IMAGE_TOO_LARGE: {
    summary: "the pull was stopped: {reason}",
    owner: "user",
    retry: "backoff",
    http: 422,
  },
  RUNTIME_REGISTRY_FORBIDDEN: {
    summary: "the image may not be pulled: {reason}",
    owner: "user",
    retry: "on-change",
    http: 403,
  },
  RUNTIME_DISK_FULL: {
    summary:
      "the disk of {path} is nearly full: {free} of {size} are left. Free space on the node; the pod then starts automatically",
    owner: "environment",
    retry: "backoff",
    http: 507,
  },
  RUNTIME_NOT_RUNNING: {
    summary: "patchbay is not running in {dataDir}",
    owner: "user",
    retry: "never",
    http: 503,
  },
  RUNTIME_START_FAILED: {
    summary: "{component} did not become ready: {reason}",
    owner: "environment",
    retry: "never",
    http: 500,
  },
  SANDBOX_NOT_FOUND: {
    summary: "pod {pod} has no sandbox on this node yet",
    owner: "environment",
    retry: "backoff",
    http: 404,
  },
  LAUNCHER_NOT_LISTENING: {
    summary: "nothing listens on the socket of the launcher of {vmi}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  RELAY_FAILED: {
    summary: "the connection to the other node of a migration failed: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  GUEST_STREAM_IN_USE: {
    summary: "the {stream} of {vmi} is in use",
    owner: "user",
    retry: "never",
    http: 409,
  },
  LAUNCHER_UNREACHABLE: {
    summary: "the launcher of {vmi} cannot be reached: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
} as const satisfies Record<string, ErrorEntry>;

export const CRI_ERRORS = {
  CRI_UNAVAILABLE: {
    summary: "no container runtime answers at {endpoint} (CRI_UNAVAILABLE): {reason}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  CRI_FAILED: {
    summary: "the container runtime failed at {call} with {status}: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CRI_TIMED_OUT: {
    summary: "the container runtime did not finish {call} within {timeoutMs} ms",
    owner: "environment",
    retry: "backoff",
    http: 504,
  },
} as const satisfies Record<string, ErrorEntry>;

export const CONTAINERD_ERRORS = {
  CONTAINERD_PATH_TOO_LONG: {
    summary:
      "the path of a socket in {path} is {bytesOver} bytes too long; choose a shorter directory",
    owner: "user",
    retry: "never",
    http: 400,
  },
  IMAGE_SOURCE_INVALID: {
    summary: "{source} cannot be made into an image: {reason}",
    owner: "user",
    retry: "never",
    http: 400,
  },
  CONTAINERD_FAILED: {
    summary: "containerd failed at {call}: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;

export const OS_ERRORS = {
  OS_TIMED_OUT: {
    summary: "{program} did not finish within {timeoutMs} ms and was killed",
    owner: "environment",
    retry: "backoff",
    http: 504,
  },
  OS_PROGRAM_FAILED: {
    summary: "{program} failed with {exitCode}: {stderr}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  OS_PROGRAM_MISSING: {
    summary: "{program} is not installed",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  OS_DESCRIPTOR_STALE: {
    summary: "descriptor {fd} no longer refers to what it was opened for",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  OS_MESSAGE_TOO_LONG: {
    summary: "a message of {bytes} bytes cannot be sent; the limit is {bytesMax} bytes",
    owner: "bug",
    retry: "backoff",
    http: 500,
  },
  OS_PATH_REFUSED: {
    summary: "{path} is refused: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 403,
  },
  OS_FILE_IN_USE: {
    summary: "{path} is in use by {device}; unmount it first",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  OS_FILE_FAILED: {
    summary: "{call} of {path} failed: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;

export const SERVICES_ERRORS = {
  SERVICE_RULES_REFUSED: {
    summary: "nftables refused the rules of Services: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  SERVICE_NAMES_FAILED: {
    summary: "the name server cannot listen at {address}, port 53: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
