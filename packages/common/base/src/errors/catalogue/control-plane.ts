// SPDX-License-Identifier: Apache-2.0
// Errors of the control plane: the API, its client and store, virt-controller, certificates and the installer.
import type { ErrorEntry } from "../entry.ts";

export const API_ERRORS = {
  API_CHECK_FAILED: {
    summary:
      "{what} is refused, because its check failed: {reason}. Change the object, and report the defect",
    owner: "bug",
    retry: "never",
    http: 422,
  },
  API_INVALID: {
    summary: "the request is invalid: {causes}",
    owner: "user",
    retry: "never",
    http: 422,
  },
  API_MALFORMED: {
    summary: "{what} cannot be parsed: {reason}",
    owner: "user",
    retry: "never",
    http: 400,
  },
  API_NODE_UNREACHABLE: {
    summary: "virt-handler of node {node} does not answer: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  API_SCREEN_UNREADABLE: {
    summary: "the guest's screen cannot be captured: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
} as const satisfies Record<string, ErrorEntry>;

/** Failures of the embedded API server's process. Rejected requests result in a Kubernetes `Status` instead. */
export const APISERVER_ERRORS = {
  STORE_UNUSABLE: {
    summary: "the store {path} cannot be opened: {reason}",
    owner: "environment",
    retry: "never",
    http: 500,
  },
  STORE_WRITE_FAILED: {
    summary: "the store could not be written: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  STORE_FULL: {
    summary:
      "the disk of the API server's store is full: until space is free, objects can only be deleted or shrunk; nothing was changed",
    owner: "environment",
    retry: "backoff",
    http: 507,
  },
  STORE_BACKUP_INVALID: {
    summary: "{path} is not a complete backup: {reason}; nothing was changed",
    owner: "user",
    retry: "never",
    http: 500,
  },
  APISERVER_LISTEN_FAILED: {
    summary: "the API server cannot listen on {host}:{port}: {reason}",
    owner: "environment",
    retry: "never",
    http: 500,
  },
  APISERVER_TLS_INVALID: {
    summary: "the API server's certificates cannot be used: {reason}",
    owner: "environment",
    retry: "never",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;

export const KUBE_ERRORS = {
  KUBE_NOT_FOUND: {
    summary: "{resource} {object} does not exist",
    owner: "environment",
    retry: "on-change",
    http: 404,
  },
  KUBE_CONFLICT: {
    summary: "{resource} {object} was changed by another writer in the meantime",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  KUBE_WRITES_LOST: {
    summary:
      "{count} writes of {resource} {object} in a row were refused because it had changed: {message}",
    owner: "bug",
    retry: "backoff",
    http: 409,
  },
  KUBE_NOT_LEADING: {
    summary: "writes are suspended: this process is not the leader, or cannot renew its lease",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  KUBE_LEASE_LOST: {
    summary: "{leader} is the leader now",
    owner: "environment",
    retry: "never",
    http: 503,
  },
  KUBE_ALREADY_EXISTS: {
    summary: "{resource} {object} already exists",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  KUBE_REFUSED: {
    summary: "the API server refused to {verb} {resource} {object}: {message}",
    owner: "user",
    retry: "backoff",
    http: 422,
  },
  KUBE_UNAUTHORIZED: {
    summary: "the API server does not accept these credentials: {message}",
    owner: "environment",
    retry: "backoff",
    http: 401,
  },
  KUBE_FORBIDDEN: {
    summary: "the API server forbids the request: {message}",
    owner: "environment",
    retry: "backoff",
    http: 403,
  },
  KUBE_UNREACHABLE: {
    summary: "the API server {server} cannot be reached: {message}",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  KUBE_EXPIRED: {
    summary: "the resource version is too old: {message}",
    owner: "environment",
    retry: "backoff",
    http: 410,
  },
  KUBE_SERVER_FAILED: {
    summary: "the API server failed with {status}: {message}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  KUBE_WAIT_TIMED_OUT: {
    summary: "{what} was not complete within {timeoutMs} ms; it is {state}",
    owner: "environment",
    retry: "backoff",
    http: 504,
  },
  KUBE_WAIT_FAILED: {
    summary: "{what} cannot be completed in the current state: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  KUBE_WAIT_INTERRUPTED: {
    summary: "{what} was requested and is still in progress; it is {state}",
    owner: "user",
    retry: "never",
    http: 499,
  },
  KUBE_CONFIG_INVALID: {
    summary: "the kubeconfig {path} cannot be used: {reason}",
    owner: "user",
    retry: "never",
    http: 400,
  },
} as const satisfies Record<string, ErrorEntry>;

export const CONTROLLER_ERRORS = {
  CONTROLLER_LAUNCHER_NAME_TAKEN: {
    summary: "the pod {object} already exists and was not created for this VirtualMachineInstance",
    owner: "user",
    retry: "on-change",
    http: 409,
  },
  CONTROLLER_MAC_IN_USE: {
    summary:
      "the VM is not started: MAC address {mac} of interface {interface} is in use on network {network} by {owner}; stop that VM, or choose another MAC",
    owner: "user",
    retry: "backoff",
    http: 409,
  },
  CONTROLLER_CLONE_FORBIDDEN: {
    summary:
      "the DataVolume {object} is not created: it copies {source} from another namespace, and the service account {account} cannot create datavolumes/source of cdi.kubevirt.io or pods in the namespace {namespace}; bind such a role to it, or copy a disk of the VM's own namespace",
    owner: "user",
    retry: "backoff",
    http: 403,
  },
  CONTROLLER_NO_DATA_SOURCE: {
    summary:
      "the DataSource {source} does not name a claim or a snapshot; create it, or correct spec.dataVolumeTemplates",
    owner: "user",
    retry: "backoff",
    http: 404,
  },
  CONTROLLER_IPAM_CLAIM_TAKEN: {
    summary:
      "the IPAMClaim {object} still belongs to a deleted VM of this name; the VM waits until the claim is deleted",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
  CONTROLLER_NO_DATA_VOLUMES: {
    summary:
      "the DataVolume {object} cannot be created: this cluster does not serve cdi.kubevirt.io/v1beta1 DataVolumes; install CDI, or remove dataVolumeTemplates, create a PersistentVolumeClaim and name it in the volume",
    owner: "environment",
    retry: "on-change",
    http: 409,
  },
} as const satisfies Record<string, ErrorEntry>;

export const PKI_ERRORS = {
  PKI_PEM_INVALID: {
    summary: "the {what} cannot be read: {reason}",
    owner: "environment",
    retry: "never",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;

export const MANIFESTS_ERRORS = {
  INSTALL_NOT_OURS: {
    summary: "the cluster has objects that Patchbay did not create; nothing was changed: {objects}",
    owner: "user",
    retry: "never",
    http: 409,
  },
  INSTALL_CHECKS_FAILED: {
    summary: "the cluster fails {wrong} of {all} checks; nothing was changed",
    owner: "environment",
    retry: "on-change",
    http: 409,
  },
  INSTALL_NOT_READY: {
    summary: "everything is installed, but not ready after {seconds} s: {reason}",
    owner: "environment",
    retry: "on-change",
    http: 500,
  },
  INSTALL_IN_USE: {
    summary: "the cluster still has virtual machines; nothing was changed: {objects}",
    owner: "user",
    retry: "never",
    http: 409,
  },
} as const satisfies Record<string, ErrorEntry>;
