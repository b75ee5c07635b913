"""The records. The actions of features write them; ``save()`` does no hidden work.

It must not import a feature.
"""

from chat.models.access_reason import AccessKind, AccessReason
from chat.models.artifact import (
    Artifact,
    ArtifactVersion,
    FetchStatus,
    Mockup,
    MockupFile,
    MockupVersion,
)
from chat.models.audit import AuditEvent
from chat.models.change import ChangeKind, ConversationChange
from chat.models.comment import Comment, CommentNotice
from chat.models.conversation import (
    BranchChoice,
    Conversation,
    ConversationContext,
    ConversationRole,
    Message,
    Role,
    Visibility,
    visibilities,
)
from chat.models.document import (
    AwaitedDocument,
    Document,
    DocumentKind,
    DocumentPage,
    FileUse,
)
from chat.models.file import AnswerFile, Attachment, ChosenContent, StoredFile, UnsentFile
from chat.models.file_content import FileContent, NewContent, UnreferencedObject
from chat.models.fork import Fork
from chat.models.imports import Import, ImportedNames, ImportedSource
from chat.models.installation import CacheEntry, KeyKind, KeyMark
from chat.models.jobs import (
    ACTIVE_JOB_STATUSES,
    Job,
    JobChunk,
    JobKind,
    JobScope,
    JobStatus,
)
from chat.models.mention import Mention
from chat.models.message_queue import QueuedFile, QueuedMessage
from chat.models.organization import Pin
from chat.models.participant import Group, GroupMember, Participant
from chat.models.presence import Draft, Presence, ReadMark
from chat.models.preset import DefaultPreset, Preset, PresetVersion
from chat.models.project import (
    Project,
    ProjectAccess,
    ProjectColor,
    ProjectMember,
    ProjectRole,
)
from chat.models.prompt import Prompt, PromptVersion, VariableKind
from chat.models.question import (
    OPEN_STATUSES,
    UNSETTLED_STATUSES,
    Question,
    QuestionKind,
    QuestionStatus,
)
from chat.models.run import (
    Attempt,
    EndedRun,
    RawSegment,
    Run,
    RunInstructions,
    Runner,
    RunPersonalInstructions,
    RunSegment,
    RunStatus,
)
from chat.models.search import SearchKind, SearchRow
from chat.models.team import Invitation, Membership, Team, TeamRole
from chat.models.titles import (
    ACTIVE_TITLE_STATUSES,
    TitleReason,
    TitleRequest,
    TitleSetting,
    TitleStatus,
)
from chat.models.token import AccessToken
from chat.models.tool import (
    SearchService,
    Tool,
    ToolCredentials,
    ToolKind,
    ToolRequest,
    ToolRule,
    ToolServer,
)
from chat.models.tool_account import ClientSource, OAuthClient, ToolAccount, ToolSignIn
from chat.models.tool_call import (
    CallStatus,
    InputSource,
    InputStatus,
    ToolCall,
    ToolChoice,
    ToolInput,
    ToolRecording,
)
from chat.models.upstream import SeenEvent, Upstream
from chat.models.user import Announcements, InstructionsUse, PersonalInstructions, User
from chat.models.version import VersionConflict

__all__ = [
    "ACTIVE_JOB_STATUSES",
    "ACTIVE_TITLE_STATUSES",
    "OPEN_STATUSES",
    "UNSETTLED_STATUSES",
    "AccessKind",
    "AccessReason",
    "AccessToken",
    "Announcements",
    "AnswerFile",
    "Artifact",
    "ArtifactVersion",
    "Attachment",
    "Attempt",
    "AuditEvent",
    "AwaitedDocument",
    "BranchChoice",
    "CacheEntry",
    "CallStatus",
    "ChangeKind",
    "ChosenContent",
    "ClientSource",
    "Comment",
    "CommentNotice",
    "Conversation",
    "ConversationChange",
    "ConversationContext",
    "ConversationRole",
    "DefaultPreset",
    "Document",
    "DocumentKind",
    "DocumentPage",
    "Draft",
    "EndedRun",
    "FetchStatus",
    "FileContent",
    "FileUse",
    "Fork",
    "Group",
    "GroupMember",
    "Import",
    "ImportedNames",
    "ImportedSource",
    "InputSource",
    "InputStatus",
    "InstructionsUse",
    "Invitation",
    "Job",
    "JobChunk",
    "JobKind",
    "JobScope",
    "JobStatus",
    "KeyKind",
    "KeyMark",
    "Membership",
    "Mention",
    "Message",
    "Mockup",
    "MockupFile",
    "MockupVersion",
    "NewContent",
    "OAuthClient",
    "Participant",
    "PersonalInstructions",
    "Pin",
    "Presence",
    "Preset",
    "PresetVersion",
    "Project",
    "ProjectAccess",
    "ProjectColor",
    "ProjectMember",
    "ProjectRole",
    "Prompt",
    "PromptVersion",
    "Question",
    "QuestionKind",
    "QuestionStatus",
    "QueuedFile",
    "QueuedMessage",
    "RawSegment",
    "ReadMark",
    "Role",
    "Run",
    "RunInstructions",
    "RunPersonalInstructions",
    "RunSegment",
    "RunStatus",
    "Runner",
    "SearchKind",
    "SearchRow",
    "SearchService",
    "SeenEvent",
    "StoredFile",
    "Team",
    "TeamRole",
    "TitleReason",
    "TitleRequest",
    "TitleSetting",
    "TitleStatus",
    "Tool",
    "ToolAccount",
    "ToolCall",
    "ToolChoice",
    "ToolCredentials",
    "ToolInput",
    "ToolKind",
    "ToolRecording",
    "ToolRequest",
    "ToolRule",
    "ToolServer",
    "ToolSignIn",
    "UnreferencedObject",
    "UnsentFile",
    "Upstream",
    "User",
    "VariableKind",
    "VersionConflict",
    "Visibility",
    "visibilities",
]
